# The zeusd API, served by the built programs on the simulated node.
headgate_test(zeusd_e2e_test SRC ${CMAKE_CURRENT_LIST_DIR}/zeusd_test.cpp ${CMAKE_CURRENT_LIST_DIR}/zeusd_rapl_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/daemon_power_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/power_parts_test.cpp ${CMAKE_CURRENT_LIST_DIR}/power_api_test.cpp
        ${CMAKE_CURRENT_LIST_DIR}/power_cli_test.cpp
  DEPS test_support http snapshot LIBS nlohmann_json::nlohmann_json util TIMEOUT 300 NEEDS /proc/self)
if(TARGET zeusd_e2e_test)
  target_compile_definitions(zeusd_e2e_test PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>"
      HEADGATE_DAEMON="$<TARGET_FILE:headgated>"
    NVIDIA_SMI="${PROJECT_SOURCE_DIR}/build/real-parts/usr/lib/nvidia/current/nvidia-smi"
        SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim" HEADGATE_POWER_PAGE="${PROJECT_SOURCE_DIR}/docs/power-control.md")
  add_dependencies(zeusd_e2e_test headgate headgated headgate_preload headgate_sim_cuda headgate_sim_nvml)
endif()
