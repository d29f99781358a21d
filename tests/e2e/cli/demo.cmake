# headgate demo as a whole: what it shows, and what it leaves behind.
headgate_test(demo_e2e_test SRC ${CMAKE_CURRENT_LIST_DIR}/demo_test.cpp DEPS load LIBS nlohmann_json::nlohmann_json)
if(TARGET demo_e2e_test)
  target_compile_definitions(demo_e2e_test PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>")
  add_dependencies(demo_e2e_test headgate_product)
endif()
