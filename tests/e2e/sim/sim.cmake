# The built simulator used by real processes.
if(NOT TARGET headgate_sim_cuda)
  return()
endif()
find_package(nlohmann_json REQUIRED)
headgate_test(sim_exports_test SRC ${CMAKE_CURRENT_LIST_DIR}/sim_exports_test.cpp DEPS abi sim LIBS ${CMAKE_DL_LIBS})
if(HEADGATE_TESTS)
  target_compile_definitions(sim_exports_test PRIVATE HEADGATE_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
endif()
headgate_test(sim_tenants_test SRC ${CMAKE_CURRENT_LIST_DIR}/sim_tenants_test.cpp
  DEPS test_support sim sim_faults LIBS nlohmann_json::nlohmann_json TIMEOUT 300)
foreach(test sim_exports_test sim_tenants_test)
  target_compile_definitions(${test} PRIVATE HEADGATE_SIM_LIBRARIES="${CMAKE_BINARY_DIR}/lib/sim"
      HEADGATE_TENANTS="${CMAKE_BINARY_DIR}/tests")
  add_dependencies(${test} headgate_sim_cuda headgate_sim_nvml)
endforeach()
add_executable(sim-later-names ${CMAKE_CURRENT_LIST_DIR}/later_names.cpp)
target_include_directories(sim-later-names PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(sim-later-names PRIVATE headgate_sim_cuda ${CMAKE_DL_LIBS} headgate_warnings)
set_target_properties(sim-later-names PROPERTIES SKIP_BUILD_RPATH TRUE RUNTIME_OUTPUT_DIRECTORY
    ${CMAKE_BINARY_DIR}/tests)
add_dependencies(sim_exports_test sim-later-names)
if(TARGET headgate_preload)
  target_compile_definitions(sim_exports_test PRIVATE HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>")
  add_dependencies(sim_exports_test headgate_preload)
endif()
add_dependencies(sim_tenants_test tenant-memory tenant-copy tenant-copy-linked tenant-launch tenant-spin)
# The limiter on a driver that misbehaves.
if(TARGET headgate_preload AND TARGET headgate)
  add_executable(sim-faults-probe ${CMAKE_CURRENT_LIST_DIR}/sim_faults_probe.cpp)
  target_include_directories(sim-faults-probe PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(sim-faults-probe PRIVATE ${CMAKE_DL_LIBS} headgate_warnings)
  set_target_properties(sim-faults-probe PROPERTIES SKIP_BUILD_RPATH TRUE RUNTIME_OUTPUT_DIRECTORY
      ${CMAKE_BINARY_DIR}/tests)
  headgate_test(sim_faults_limiter_test SRC ${CMAKE_CURRENT_LIST_DIR}/sim_faults_limiter_test.cpp
    DEPS test_support ledger sim_faults TIMEOUT 300)
  target_compile_definitions(sim_faults_limiter_test PRIVATE HEADGATE_SIM_LIBRARIES="${CMAKE_BINARY_DIR}/lib/sim"
    HEADGATE_TENANTS="${CMAKE_BINARY_DIR}/tests" HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>"
        HEADGATE_COMMAND="$<TARGET_FILE:headgate>")
  add_executable(sim-crash-probe ${CMAKE_CURRENT_LIST_DIR}/sim_crash_probe.cpp
      ${CMAKE_CURRENT_LIST_DIR}/sim_wrong_calls.cpp)
  target_include_directories(sim-crash-probe PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(sim-crash-probe PRIVATE ${CMAKE_DL_LIBS} headgate_warnings)
  set_target_properties(sim-crash-probe PROPERTIES SKIP_BUILD_RPATH TRUE RUNTIME_OUTPUT_DIRECTORY
      ${CMAKE_BINARY_DIR}/tests)
  headgate_test(sim_crash_limiter_test SRC ${CMAKE_CURRENT_LIST_DIR}/sim_crash_limiter_test.cpp
    DEPS test_support ledger sim sim_faults TIMEOUT 300)
  target_compile_definitions(sim_crash_limiter_test PRIVATE HEADGATE_SIM_LIBRARIES="${CMAKE_BINARY_DIR}/lib/sim"
    HEADGATE_TENANTS="${CMAKE_BINARY_DIR}/tests" HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>")
  add_dependencies(sim_crash_limiter_test sim-crash-probe headgate_preload headgate_sim_cuda headgate_sim_nvml)
  headgate_test(compute_gang_test SRC ${CMAKE_CURRENT_LIST_DIR}/../limiter/compute_gang_test.cpp
    DEPS test_support ledger TIMEOUT 300)
  target_compile_definitions(compute_gang_test PRIVATE HEADGATE_SIM_LIBRARIES="${CMAKE_BINARY_DIR}/lib/sim"
    HEADGATE_TENANTS="${CMAKE_BINARY_DIR}/tests" HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>")
  add_dependencies(compute_gang_test tenant-spin headgate_preload headgate_sim_cuda headgate_sim_nvml)
  add_dependencies(sim_faults_limiter_test sim-faults-probe headgate_preload headgate headgate_sim_cuda
      headgate_sim_nvml)
endif()
