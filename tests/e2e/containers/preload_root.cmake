# The limiter in a container's root; the programs of daemon.cmake are the tenants.
if(TARGET bypass_static)
  headgate_test(preload_root_test SRC ${CMAKE_CURRENT_LIST_DIR}/preload_root_test.cpp
    DEPS test_support http snapshot NEEDS /proc/self)
  target_compile_definitions(preload_root_test PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>"
      HEADGATE_DAEMON="$<TARGET_FILE:headgated>"
    SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim" BYPASS_PROGRAM="$<TARGET_FILE:bypass_program>"
        BYPASS_STATIC="$<TARGET_FILE:bypass_static>")
  add_dependencies(preload_root_test headgate headgated headgate_preload headgate_path headgate_sim_cuda
      headgate_sim_nvml bypass_program bypass_static)
endif()
