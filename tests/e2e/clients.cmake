# Real programs over the simulated node, and the coverage of the drivers' names.
headgate_test(clients_test SRC ${CMAKE_CURRENT_LIST_DIR}/clients_test.cpp ${CMAKE_CURRENT_LIST_DIR}/cli_program.cpp TIMEOUT 300)
target_compile_definitions(clients_test PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>" SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim"
  NVIDIA_SMI="${PROJECT_SOURCE_DIR}/build/real-parts/usr/lib/nvidia/current/nvidia-smi"
  QUERY_GPU_FIELDS="${PROJECT_SOURCE_DIR}/tests/data/nvidia-smi-535.261-query-gpu.fields"
  ROADS_PY="${CMAKE_CURRENT_LIST_DIR}/roads.py" VIEWS_PY="${CMAKE_CURRENT_LIST_DIR}/views.py")
add_dependencies(clients_test headgate headgate_preload headgate-load headgate_sim_cuda headgate_sim_nvml)

# Lists of names as real libraries export them, and our own libraries: nothing unknown, nothing unexplained.
add_test(NAME doctor_symbols COMMAND headgate doctor --symbols
  ${PROJECT_SOURCE_DIR}/tests/data/libcuda-13.0-stub.names ${PROJECT_SOURCE_DIR}/tests/data/libcuda-535.261.names
  ${PROJECT_SOURCE_DIR}/tests/data/libnvidia-ml-535.261.names ${PROJECT_SOURCE_DIR}/tests/data/nvidia-smi-535.261.names
  $<TARGET_FILE:headgate_sim_cuda> $<TARGET_FILE:headgate_sim_nvml>)

# Which GPUs a program in a share is shown.
add_executable(gpu_list_probe ${CMAKE_CURRENT_LIST_DIR}/gpu_list_probe.cpp)
target_link_libraries(gpu_list_probe PRIVATE ${CMAKE_DL_LIBS} headgate_warnings)
target_include_directories(gpu_list_probe PRIVATE ${PROJECT_SOURCE_DIR}/src)
set_target_properties(gpu_list_probe PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
headgate_test(gpu_list_test SRC ${CMAKE_CURRENT_LIST_DIR}/gpu_list_test.cpp ${CMAKE_CURRENT_LIST_DIR}/daemon_program.cpp
    ${CMAKE_CURRENT_LIST_DIR}/cli_program.cpp ${CMAKE_CURRENT_LIST_DIR}/sim_program.cpp
  DEPS http snapshot LIBS nlohmann_json::nlohmann_json NEEDS /proc/self)
if(TARGET gpu_list_test)
  target_compile_definitions(gpu_list_test PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>" HEADGATE_DAEMON="$<TARGET_FILE:headgated>"
    HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>" SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim" GPU_LIST_PROBE="$<TARGET_FILE:gpu_list_probe>"
    NVIDIA_SMI="${PROJECT_SOURCE_DIR}/build/real-parts/usr/lib/nvidia/current/nvidia-smi")
  add_dependencies(gpu_list_test headgate headgated headgate_preload headgate_sim_cuda headgate_sim_nvml gpu_list_probe)
endif()
