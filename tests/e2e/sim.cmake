# The built simulator under real processes.
if(NOT TARGET headgate_sim_cuda)
  return()
endif()
find_package(nlohmann_json REQUIRED)
headgate_test(sim_exports_test SRC ${CMAKE_CURRENT_LIST_DIR}/sim_exports_test.cpp DEPS abi LIBS ${CMAKE_DL_LIBS})
headgate_test(sim_tenants_test SRC ${CMAKE_CURRENT_LIST_DIR}/sim_tenants_test.cpp ${CMAKE_CURRENT_LIST_DIR}/sim_program.cpp
  DEPS sim sim_faults LIBS nlohmann_json::nlohmann_json TIMEOUT 300)
foreach(test sim_exports_test sim_tenants_test)
  target_compile_definitions(${test} PRIVATE HEADGATE_SIM_LIBRARIES="${CMAKE_BINARY_DIR}/lib/sim" HEADGATE_TENANTS="${CMAKE_BINARY_DIR}/tests")
  add_dependencies(${test} headgate_sim_cuda headgate_sim_nvml)
endforeach()
add_dependencies(sim_tenants_test tenant-memory tenant-copy tenant-copy-linked tenant-launch tenant-spin)
