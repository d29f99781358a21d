# The built limiter in real processes, on the driver that does nothing.
set(limiter_dir ${CMAKE_CURRENT_LIST_DIR})

add_library(limiter_probe_helper SHARED ${limiter_dir}/limiter_probe_helper.cpp)
set_target_properties(limiter_probe_helper PROPERTIES PREFIX "" OUTPUT_NAME libprobe-helper
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

function(limiter_probe name)
  add_executable(${name} ${limiter_dir}/limiter_probe.cpp)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE -Wl,--no-as-needed limiter_probe_helper ${CMAKE_DL_LIBS} ${ARGN})
  set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON SKIP_BUILD_RPATH ON
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()
limiter_probe(limiter_probe)
limiter_probe(limiter_probe_linked quiet_driver)
target_compile_definitions(limiter_probe_linked PRIVATE LINKED)

add_executable(limiter_attack ${limiter_dir}/limiter_attack.cpp)
target_include_directories(limiter_attack PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(limiter_attack PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
set_target_properties(limiter_attack PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

add_executable(limiter_early ${limiter_dir}/limiter_early.cpp)
target_link_libraries(limiter_early PRIVATE ${CMAKE_DL_LIBS})
set_target_properties(limiter_early PROPERTIES ENABLE_EXPORTS ON RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

add_executable(limiter_manners ${limiter_dir}/limiter_manners.cpp)
target_include_directories(limiter_manners PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(limiter_manners PRIVATE ${CMAKE_DL_LIBS} headgate_warnings)
set_target_properties(limiter_manners PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

add_library(limiter_profiler SHARED ${limiter_dir}/limiter_profiler.cpp)
target_include_directories(limiter_profiler PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(limiter_profiler PRIVATE ${CMAKE_DL_LIBS} headgate_warnings)
set_target_properties(limiter_profiler PROPERTIES OUTPUT_NAME profiler LIBRARY_OUTPUT_DIRECTORY
    ${CMAKE_BINARY_DIR}/tests)
find_library(jemalloc NAMES libjemalloc.so.2 REQUIRED)
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libasan.so OUTPUT_VARIABLE asan_library
  OUTPUT_STRIP_TRAILING_WHITESPACE)

headgate_test(limiter_e2e_test
  SRC ${limiter_dir}/limiter_route_test.cpp ${limiter_dir}/limiter_memory_test.cpp
      ${limiter_dir}/limiter_sim_test.cpp ${limiter_dir}/limiter_attack_test.cpp
      ${limiter_dir}/limiter_companions_test.cpp ${limiter_dir}/limiter_manners_test.cpp
          ${limiter_dir}/limiter_log_test.cpp
  DEPS test_support ledger)
target_compile_definitions(limiter_e2e_test PRIVATE
  LIMITER_TESTS_DIR="${CMAKE_BINARY_DIR}/tests" LIMITER_LIBRARY="$<TARGET_FILE:headgate_preload>"
  LIMITER_SIMULATOR="$<TARGET_FILE_DIR:headgate_sim_cuda>" JEMALLOC="${jemalloc}" ASAN_RUNTIME="${asan_library}")
add_dependencies(limiter_e2e_test limiter_manners limiter_profiler limiter_attack limiter_early limiter_probe
    limiter_probe_linked quiet_driver quiet_driver_old quiet_nvml
  headgate_preload headgate_sim_cuda headgate_sim_nvml)

# The limiter and the daemon's tenant sockets.
headgate_test(limiter_registration_test SRC ${limiter_dir}/limiter_registration_test.cpp
  DEPS test_support tenancy NEEDS /proc/self)
target_compile_definitions(limiter_registration_test PRIVATE
  LIMITER_TESTS_DIR="${CMAKE_BINARY_DIR}/tests" LIMITER_LIBRARY="$<TARGET_FILE:headgate_preload>"
  LIMITER_SIMULATOR="$<TARGET_FILE_DIR:headgate_sim_cuda>")
add_dependencies(limiter_registration_test limiter_probe quiet_driver quiet_nvml headgate_preload)

# The compute side on the built simulator: the ledger compared with the truth.
if(TARGET headgate_sim_cuda)
  add_executable(limiter_compute ${limiter_dir}/limiter_compute.cpp ${limiter_dir}/limiter_compute_contexts.cpp)
  target_include_directories(limiter_compute PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(limiter_compute PRIVATE ${CMAKE_DL_LIBS} Threads::Threads headgate_warnings)
  set_target_properties(limiter_compute PROPERTIES SKIP_BUILD_RPATH TRUE RUNTIME_OUTPUT_DIRECTORY
      ${CMAKE_BINARY_DIR}/tests)
  headgate_test(limiter_compute_test
    SRC ${limiter_dir}/limiter_compute_test.cpp ${limiter_dir}/limiter_compute_life_test.cpp
        ${limiter_dir}/limiter_compute_policy_test.cpp
    DEPS test_support ledger sim sim_faults TIMEOUT 300)
  target_compile_definitions(limiter_compute_test PRIVATE HEADGATE_SIM_LIBRARIES="${CMAKE_BINARY_DIR}/lib/sim"
    HEADGATE_TENANTS="${CMAKE_BINARY_DIR}/tests" HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>")
  # Its bounds depend on a share's time, and next to another test its threads may not be scheduled.
  set_tests_properties(limiter_compute_test PROPERTIES PROCESSORS 4)
  add_dependencies(limiter_compute_test limiter_compute headgate_preload headgate_sim_cuda headgate_sim_nvml)

  add_executable(limiter_graphs ${limiter_dir}/limiter_graphs.cpp)
  target_include_directories(limiter_graphs PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(limiter_graphs PRIVATE ${CMAKE_DL_LIBS} Threads::Threads headgate_warnings)
  set_target_properties(limiter_graphs PROPERTIES SKIP_BUILD_RPATH TRUE RUNTIME_OUTPUT_DIRECTORY
      ${CMAKE_BINARY_DIR}/tests)
  headgate_test(limiter_graphs_test
    SRC ${limiter_dir}/limiter_graphs_test.cpp
    DEPS test_support ledger sim TIMEOUT 300)
  target_compile_definitions(limiter_graphs_test PRIVATE HEADGATE_SIM_LIBRARIES="${CMAKE_BINARY_DIR}/lib/sim"
    HEADGATE_TENANTS="${CMAKE_BINARY_DIR}/tests" HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>")
  set_tests_properties(limiter_graphs_test PROPERTIES PROCESSORS 4)  # as above
  add_dependencies(limiter_graphs_test limiter_graphs headgate_preload headgate_sim_cuda headgate_sim_nvml)

  # Linear memory and arrays by every path.
  add_executable(limiter_paths ${limiter_dir}/limiter_paths.cpp)
  target_include_directories(limiter_paths PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(limiter_paths PRIVATE ${CMAKE_DL_LIBS} headgate_warnings)
  set_target_properties(limiter_paths PROPERTIES SKIP_BUILD_RPATH TRUE RUNTIME_OUTPUT_DIRECTORY
      ${CMAKE_BINARY_DIR}/tests)
  headgate_test(limiter_paths_test SRC ${limiter_dir}/limiter_paths_test.cpp
    DEPS test_support ledger sim TIMEOUT 300)
  target_compile_definitions(limiter_paths_test PRIVATE HEADGATE_SIM_LIBRARIES="${CMAKE_BINARY_DIR}/lib/sim"
    HEADGATE_TENANTS="${CMAKE_BINARY_DIR}/tests" HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>")
  add_dependencies(limiter_paths_test limiter_paths headgate_preload headgate_sim_cuda headgate_sim_nvml)
endif()

# Stream-ordered memory on the built simulator.
add_executable(limiter_pool ${limiter_dir}/limiter_pool.cpp)
target_include_directories(limiter_pool PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(limiter_pool PRIVATE ${CMAKE_DL_LIBS} Threads::Threads headgate_warnings)
set_target_properties(limiter_pool PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
headgate_test(limiter_pool_test SRC ${limiter_dir}/limiter_pool_test.cpp ${limiter_dir}/limiter_freeze_test.cpp
    ${limiter_dir}/limiter_graph_memory_test.cpp ${limiter_dir}/limiter_contexts_test.cpp
    ${limiter_dir}/limiter_start_test.cpp
    ${limiter_dir}/limiter_residual_growth_test.cpp
  DEPS test_support ledger sim sim_faults TIMEOUT 300)
target_compile_definitions(limiter_pool_test PRIVATE
  LIMITER_TESTS_DIR="${CMAKE_BINARY_DIR}/tests" LIMITER_LIBRARY="$<TARGET_FILE:headgate_preload>"
  LIMITER_SIMULATOR="$<TARGET_FILE_DIR:headgate_sim_cuda>")
add_dependencies(limiter_pool_test limiter_pool limiter_paths limiter_sharing headgate_preload headgate_sim_cuda
    headgate_sim_nvml)
# Memory shared by processes, on the built simulator.
if(TARGET headgate_sim_cuda)
  add_executable(limiter_sharing ${limiter_dir}/limiter_sharing.cpp)
  target_include_directories(limiter_sharing PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(limiter_sharing PRIVATE ${CMAKE_DL_LIBS} headgate_warnings)
  set_target_properties(limiter_sharing PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  headgate_test(limiter_sharing_test 
    SRC ${limiter_dir}/limiter_sharing_test.cpp ${limiter_dir}/limiter_sharing_random_test.cpp
        ${limiter_dir}/limiter_vmm_test.cpp
    DEPS test_support ledger sim TIMEOUT 300)
  target_compile_definitions(limiter_sharing_test PRIVATE
    LIMITER_TESTS_DIR="${CMAKE_BINARY_DIR}/tests" LIMITER_LIBRARY="$<TARGET_FILE:headgate_preload>"
    LIMITER_SIMULATOR="$<TARGET_FILE_DIR:headgate_sim_cuda>")
  add_dependencies(limiter_sharing_test limiter_sharing headgate_preload headgate_sim_cuda headgate_sim_nvml)
endif()
