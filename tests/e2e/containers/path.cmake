# The built libheadgate-path.so in real processes.
add_executable(path_probe ${CMAKE_CURRENT_LIST_DIR}/path_probe.cpp)
target_link_libraries(path_probe PRIVATE ${CMAKE_DL_LIBS} headgate_warnings)
set_target_properties(path_probe PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
headgate_test(path_e2e_test SRC ${CMAKE_CURRENT_LIST_DIR}/path_test.cpp DEPS test_support)
target_compile_definitions(path_e2e_test PRIVATE PATH_LIBRARY="$<TARGET_FILE:headgate_path>"
    PATH_PROBE="$<TARGET_FILE:path_probe>")
add_dependencies(path_e2e_test headgate_path path_probe)
