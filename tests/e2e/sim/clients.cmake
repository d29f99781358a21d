# Real programs on the simulated node, and the coverage of the driver's names.
headgate_test(clients_test SRC ${CMAKE_CURRENT_LIST_DIR}/clients_test.cpp DEPS test_support TIMEOUT 300)
target_compile_definitions(clients_test PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>"
    SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim"
  NVIDIA_SMI="${PROJECT_SOURCE_DIR}/build/real-parts/usr/lib/nvidia/current/nvidia-smi"
  QUERY_GPU_FIELDS="${PROJECT_SOURCE_DIR}/tests/data/nvidia-smi-535.261-query-gpu.fields"
  ROADS_PY="${CMAKE_CURRENT_LIST_DIR}/roads.py" VIEWS_PY="${CMAKE_CURRENT_LIST_DIR}/views.py")
add_dependencies(clients_test headgate headgate_preload headgate-load headgate_sim_cuda headgate_sim_nvml)

# Exports of real libraries and of the simulator's: the limiter knows every name, and can explain each that it ignores.
add_test(NAME doctor_symbols COMMAND headgate doctor --symbols
  ${PROJECT_SOURCE_DIR}/tests/data/libcuda-13.0-stub.names ${PROJECT_SOURCE_DIR}/tests/data/libcuda-535.261.names
  ${PROJECT_SOURCE_DIR}/tests/data/libnvidia-ml-535.261.names ${PROJECT_SOURCE_DIR}/tests/data/nvidia-smi-535.261.names
  $<TARGET_FILE:headgate_sim_cuda> $<TARGET_FILE:headgate_sim_nvml>)
