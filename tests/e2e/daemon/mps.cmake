# Shares under MPS, with control daemons that headgated starts: the stand-in next to the simulated driver.
headgate_test(mps_e2e_test SRC ${CMAKE_CURRENT_LIST_DIR}/mps_share_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/mps_all_users_test.cpp ${CMAKE_CURRENT_LIST_DIR}/mps_keeper_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/mps_faults_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/time_slice_test.cpp
  DEPS test_support http mps snapshot sim sim_mps_wire LIBS nlohmann_json::nlohmann_json util NEEDS /proc/self TIMEOUT 300)
if(TARGET mps_e2e_test)
  target_compile_definitions(mps_e2e_test PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>"
      HEADGATE_DAEMON="$<TARGET_FILE:headgated>"
      HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>" HEADGATE_LOAD="$<TARGET_FILE:headgate-load>"
      SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim"
      NVIDIA_SMI="${PROJECT_SOURCE_DIR}/build/real-parts/usr/lib/nvidia/current/nvidia-smi"
      HEADGATE_SIM_MPS_TOOL="$<TARGET_FILE:headgate_sim_mps>"
      HEADGATE_REAL_MPS_TOOL="${PROJECT_SOURCE_DIR}/build/real-parts/usr/bin/nvidia-cuda-mps-control")
  add_dependencies(mps_e2e_test headgate headgated headgate_preload headgate-load headgate_sim_cuda headgate_sim_nvml
      headgate_sim_mps)
endif()
