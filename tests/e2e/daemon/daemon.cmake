# The built daemon and command on the simulated node.
headgate_test(daemon_e2e_test SRC ${CMAKE_CURRENT_LIST_DIR}/daemon_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/daemon_hostile_test.cpp ${CMAKE_CURRENT_LIST_DIR}/daemon_top_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/daemon_api_test.cpp ${CMAKE_CURRENT_LIST_DIR}/daemon_commands_test.cpp
    ${PROJECT_SOURCE_DIR}/src/api/test_reply.cpp
  DEPS test_support api http snapshot LIBS nlohmann_json::nlohmann_json util NEEDS /proc/self)
if(TARGET daemon_e2e_test)
  target_compile_definitions(daemon_e2e_test PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>"
      HEADGATE_DAEMON="$<TARGET_FILE:headgated>" HEADGATE_LOAD="$<TARGET_FILE:headgate-load>"
      HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>"
    SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim" PROMTOOL="${PROJECT_SOURCE_DIR}/build/real-parts/usr/bin/promtool")
  add_dependencies(daemon_e2e_test headgate headgated headgate_preload headgate-load headgate_sim_cuda
      headgate_sim_nvml)

  headgate_test(daemon_hang_test SRC ${CMAKE_CURRENT_LIST_DIR}/daemon_hang_test.cpp
      ${CMAKE_CURRENT_LIST_DIR}/daemon_waits_test.cpp
    DEPS test_support api http snapshot LIBS nlohmann_json::nlohmann_json util NEEDS /proc/self)
  target_compile_definitions(daemon_hang_test PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>"
      HEADGATE_DAEMON="$<TARGET_FILE:headgated>" HEADGATE_LOAD="$<TARGET_FILE:headgate-load>"
      HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>"
    SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim")
  add_dependencies(daemon_hang_test headgate headgated headgate_preload headgate-load headgate_sim_cuda
      headgate_sim_nvml)

  # What the daemon sees of the driver, and programs that bypass the limiter, each in another way.
  set(daemon_dir ${CMAKE_CURRENT_LIST_DIR})
  add_executable(bypass_program ${daemon_dir}/bypass_program.cpp)
  target_link_libraries(bypass_program PRIVATE ${CMAKE_DL_LIBS} headgate_warnings)
  headgate_test(daemon_observe_test SRC ${daemon_dir}/daemon_audit_test.cpp ${daemon_dir}/daemon_mps_test.cpp
      ${daemon_dir}/daemon_node_page_test.cpp ${daemon_dir}/daemon_enforce_test.cpp ${daemon_dir}/daemon_fence_test.cpp ${daemon_dir}/daemon_events_test.cpp
      ${daemon_dir}/driver_copy_test.cpp ${daemon_dir}/daemon_reload_test.cpp
    DEPS test_support http snapshot sim LIBS nlohmann_json::nlohmann_json util NEEDS /proc/self TIMEOUT 300)
  target_compile_definitions(daemon_observe_test PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>"
      HEADGATE_DAEMON="$<TARGET_FILE:headgated>" HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>"
    BYPASS_PROGRAM="$<TARGET_FILE:bypass_program>" HEADGATE_LOAD="$<TARGET_FILE:headgate-load>"
        SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim")
  add_dependencies(daemon_observe_test headgate headgated headgate_preload headgate-load headgate_sim_cuda
      headgate_sim_nvml bypass_program)
  set(bypass_programs bypass_program)
  # Links the simulated driver statically, into a program that no preload reaches. Sanitizer runtimes do not support
  # static programs.
  if(NOT HEADGATE_SANITIZE)
    add_executable(bypass_static ${daemon_dir}/bypass_program.cpp $<TARGET_OBJECTS:headgate_sim_cuda>)
    target_compile_definitions(bypass_static PRIVATE STATIC)
    target_link_libraries(bypass_static PRIVATE headgate_sim headgate_sim_ptx headgate_sim_faults
        headgate_sim_mps_wire headgate_warnings)
    # glibc warns that static programs cannot look up users, but this one never does.
    target_link_options(bypass_static PRIVATE -static -Wl,--no-warnings)
    target_compile_definitions(daemon_observe_test PRIVATE BYPASS_STATIC="$<TARGET_FILE:bypass_static>")
    add_dependencies(daemon_observe_test bypass_static)
    list(APPEND bypass_programs bypass_static)
  endif()
  foreach(program IN LISTS bypass_programs)
    target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  endforeach()
endif()
# What the daemon keeps across restarts, how it ends expired shares, waiting runs, and processes with other clocks.
headgate_test(daemon_shares_test SRC ${CMAKE_CURRENT_LIST_DIR}/daemon_gone_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/daemon_kept_test.cpp ${CMAKE_CURRENT_LIST_DIR}/daemon_unheld_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/../sim/sim_users_test.cpp ${CMAKE_CURRENT_LIST_DIR}/daemon_users_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/time_namespaces_test.cpp ${CMAKE_CURRENT_LIST_DIR}/daemon_live_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/daemon_queue_test.cpp ${CMAKE_CURRENT_LIST_DIR}/daemon_committed_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/daemon_join_test.cpp ${PROJECT_SOURCE_DIR}/src/api/test_reply.cpp
  DEPS test_support http ledger snapshot sim LIBS nlohmann_json::nlohmann_json TIMEOUT 300 NEEDS /proc/self)
if(TARGET daemon_shares_test)
  target_compile_definitions(daemon_shares_test PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>"
      HEADGATE_DAEMON="$<TARGET_FILE:headgated>"
    HEADGATE_LOAD="$<TARGET_FILE:headgate-load>" HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>"
        SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim" TENANT_PATHS="${CMAKE_BINARY_DIR}/tests/limiter_paths")
  add_dependencies(daemon_shares_test headgate headgated headgate_preload headgate-load limiter_paths headgate_sim_cuda
      headgate_sim_nvml)
endif()
# The daemon with an outside scheduler, and tenants that run out of memory.
headgate_test(daemon_scheduler_test SRC ${CMAKE_CURRENT_LIST_DIR}/daemon_scheduler_test.cpp
    ${PROJECT_SOURCE_DIR}/src/api/test_reply.cpp
  DEPS test_support channel_agent http ledger snapshot LIBS nlohmann_json::nlohmann_json TIMEOUT 300 NEEDS /proc/self)
if(TARGET daemon_scheduler_test)
  target_compile_definitions(daemon_scheduler_test PRIVATE
      HEADGATE_EXAMPLES="${PROJECT_SOURCE_DIR}/deploy/examples" HEADGATE_COMMAND="$<TARGET_FILE:headgate>"
      HEADGATE_DAEMON="$<TARGET_FILE:headgated>"
    HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>" SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim"
        TENANT_POOL="${CMAKE_BINARY_DIR}/tests/limiter_pool")
  add_dependencies(daemon_scheduler_test headgate headgated headgate_preload limiter_pool headgate_sim_cuda
      headgate_sim_nvml)
endif()
