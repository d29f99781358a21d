# Turns between shares in real time: the arbiter's thread, built limiters, the simulated node.
headgate_test(arbiter_e2e_test SRC ${CMAKE_CURRENT_LIST_DIR}/arbiter_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/arbiter_modes_test.cpp ${CMAKE_CURRENT_LIST_DIR}/arbiter_node.cpp
  DEPS test_support node ledger schedule sim LIBS Threads::Threads TIMEOUT 300)
if(TARGET arbiter_e2e_test)
  target_compile_definitions(arbiter_e2e_test PRIVATE HEADGATE_LOAD="$<TARGET_FILE:headgate-load>"
      HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>" SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim"
      HEADGATE_TENANTS="$<TARGET_FILE_DIR:tenant-spin>")
  add_dependencies(arbiter_e2e_test headgate_preload headgate-load tenant-spin limiter_compute headgate_sim_cuda
      headgate_sim_nvml)
endif()
