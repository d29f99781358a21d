# Which GPUs a program in a share sees.
add_executable(gpu_list_probe ${CMAKE_CURRENT_LIST_DIR}/gpu_list_probe.cpp)
target_link_libraries(gpu_list_probe PRIVATE ${CMAKE_DL_LIBS} headgate_warnings)
target_include_directories(gpu_list_probe PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
set_target_properties(gpu_list_probe PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
headgate_test(gpu_list_test SRC ${CMAKE_CURRENT_LIST_DIR}/gpu_list_test.cpp
  DEPS test_support http snapshot LIBS nlohmann_json::nlohmann_json NEEDS /proc/self)
if(TARGET gpu_list_test)
  target_compile_definitions(gpu_list_test PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>"
      HEADGATE_DAEMON="$<TARGET_FILE:headgated>"
    HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>" SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim"
        GPU_LIST_PROBE="$<TARGET_FILE:gpu_list_probe>"
    NVIDIA_SMI="${PROJECT_SOURCE_DIR}/build/real-parts/usr/lib/nvidia/current/nvidia-smi")
  add_dependencies(gpu_list_test headgate headgated headgate_preload headgate_sim_cuda headgate_sim_nvml gpu_list_probe)
endif()
