# The daemon under attack and under random accidents. Separate programs, because each needs a known time (ctest -L
# attack, ctest -L chaos).
set(attack_dir ${CMAKE_CURRENT_LIST_DIR})
function(headgate_daemon_test name timeout label)
  list(TRANSFORM ARGN PREPEND ${attack_dir}/)
  headgate_test(${name} SRC ${ARGN}
    DEPS test_support http ledger sim snapshot TIMEOUT ${timeout} NEEDS /proc/self)
  if(TARGET ${name})
    target_compile_definitions(${name} PRIVATE HEADGATE_COMMAND="$<TARGET_FILE:headgate>"
        HEADGATE_DAEMON="$<TARGET_FILE:headgated>"
      HEADGATE_LOAD="$<TARGET_FILE:headgate-load>" HEADGATE_LIMITER="$<TARGET_FILE:headgate_preload>"
          SIMULATOR_DIR="${CMAKE_BINARY_DIR}/lib/sim")
    add_dependencies(${name} headgate headgated headgate_preload headgate-load headgate_sim_cuda headgate_sim_nvml)
    set_property(TEST ${name} APPEND PROPERTY LABELS ${label})
  endif()
endfunction()
headgate_daemon_test(daemon_attack_test 240 attack daemon_attack_test.cpp daemon_abuse_test.cpp
    daemon_misreport_test.cpp)
headgate_daemon_test(daemon_together_test 120 together daemon_together_test.cpp)
headgate_daemon_test(daemon_chaos_test 300 chaos daemon_chaos_test.cpp)
