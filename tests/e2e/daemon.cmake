# The built daemon and command over the simulated node.
headgate_test(daemon_e2e_test SRC ${CMAKE_CURRENT_LIST_DIR}/daemon_test.cpp ${CMAKE_CURRENT_LIST_DIR}/daemon_hostile_test.cpp ${CMAKE_CURRENT_LIST_DIR}/daemon_top_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/daemon_api_test.cpp ${PROJECT_SOURCE_DIR}/src/api/test_reply.cpp
    ${CMAKE_CURRENT_LIST_DIR}/daemon_program.cpp ${CMAKE_CURRENT_LIST_DIR}/cli_program.cpp ${CMAKE_CURRENT_LIST_DIR}/sim_program.cpp
  DEPS api http snapshot LIBS nlohmann_json::nlohmann_json util NEEDS /proc/self)
if(TARGET daemon_e2e_test)
  target_compile_definitions(daemon_e2e_test PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>" HEADGATE_DAEMON="$<TARGET_FILE:headgated>" HEADGATE_LOAD="$<TARGET_FILE:headgate-load>" HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>"
    SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim" PROMTOOL="${PROJECT_SOURCE_DIR}/build/real-parts/usr/bin/promtool")
  add_dependencies(daemon_e2e_test headgate headgated headgate_preload headgate-load headgate_sim_cuda headgate_sim_nvml)
endif()
# The daemon beside an outside scheduler, with tenants that run out of memory.
headgate_test(daemon_scheduler_test SRC ${CMAKE_CURRENT_LIST_DIR}/daemon_scheduler_test.cpp ${CMAKE_CURRENT_LIST_DIR}/daemon_program.cpp
    ${CMAKE_CURRENT_LIST_DIR}/cli_program.cpp ${CMAKE_CURRENT_LIST_DIR}/sim_program.cpp ${PROJECT_SOURCE_DIR}/src/api/test_reply.cpp
  DEPS channel http ledger snapshot LIBS nlohmann_json::nlohmann_json TIMEOUT 300)
if(TARGET daemon_scheduler_test)
  target_compile_definitions(daemon_scheduler_test PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>" HEADGATE_DAEMON="$<TARGET_FILE:headgated>"
    HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>" SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim" TENANT_POOL="${CMAKE_BINARY_DIR}/tests/limiter_pool")
  add_dependencies(daemon_scheduler_test headgate headgated headgate_preload limiter_pool headgate_sim_cuda headgate_sim_nvml)
endif()
