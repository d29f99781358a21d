# The built command on the simulated node.
headgate_test(cli_e2e_test SRC ${CMAKE_CURRENT_LIST_DIR}/cli_test.cpp ${CMAKE_CURRENT_LIST_DIR}/cli_run_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/cli_values_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/cli_explain_test.cpp ${CMAKE_CURRENT_LIST_DIR}/cli_terminal_test.cpp
        ${CMAKE_CURRENT_LIST_DIR}/cli_forms_test.cpp ${CMAKE_CURRENT_LIST_DIR}/cli_bundle_test.cpp
        ${CMAKE_CURRENT_LIST_DIR}/cli_cdi_test.cpp
        ${CMAKE_CURRENT_LIST_DIR}/cli_limiter_test.cpp ${CMAKE_CURRENT_LIST_DIR}/cli_watch_test.cpp
        ${CMAKE_CURRENT_LIST_DIR}/cli_runtime_test.cpp ${CMAKE_CURRENT_LIST_DIR}/cli_top_test.cpp
  DEPS test_support LIBS nlohmann_json::nlohmann_json util)
target_compile_definitions(cli_e2e_test PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>"
    SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim")
add_dependencies(cli_e2e_test headgate headgate-oci headgate_preload headgate_path headgate-load headgate_sim_cuda headgate_sim_nvml)

# A program with a sanitizer runtime that must be loaded first: GCC's, unless linked statically.
if(TARGET cli_e2e_test AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT HEADGATE_SANITIZE)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libasan.so OUTPUT_VARIABLE asan_runtime
      OUTPUT_STRIP_TRAILING_WHITESPACE)
  add_executable(sanitized-tenant ${CMAKE_CURRENT_LIST_DIR}/../sim/sim_faults_probe.cpp)
  target_include_directories(sanitized-tenant PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(sanitized-tenant PRIVATE -fsanitize=address)
  target_link_options(sanitized-tenant PRIVATE -fsanitize=address)
  target_link_libraries(sanitized-tenant PRIVATE ${CMAKE_DL_LIBS} headgate_warnings)
  set_target_properties(sanitized-tenant PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_definitions(cli_e2e_test PRIVATE SANITIZED_TENANT="$<TARGET_FILE:sanitized-tenant>"
      SANITIZER_RUNTIME="${asan_runtime}")
  add_dependencies(cli_e2e_test sanitized-tenant)
endif()
