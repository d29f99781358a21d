# The built command over the simulated node.
headgate_test(cli_e2e_test SRC ${CMAKE_CURRENT_LIST_DIR}/cli_test.cpp ${CMAKE_CURRENT_LIST_DIR}/cli_run_test.cpp ${CMAKE_CURRENT_LIST_DIR}/cli_values_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/cli_explain_test.cpp ${CMAKE_CURRENT_LIST_DIR}/cli_terminal_test.cpp ${CMAKE_CURRENT_LIST_DIR}/cli_program.cpp
  LIBS nlohmann_json::nlohmann_json util)
target_compile_definitions(cli_e2e_test PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>" SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim")
add_dependencies(cli_e2e_test headgate headgate_preload headgate-load headgate_sim_cuda headgate_sim_nvml)
