# Facts about single test programs for the build and .ci/run. Labels (ctest -L LABEL) select the programs of .ci/run's
# shorter forms; .ci/nightly runs all tests there.

# bare: a machine without /proc, locale or TERM could break it (tests/tree/run bare).
set(HEADGATE_TESTS_bare
  api_test bare_clock_test base_test cli_e2e_test cli_test config_test creation_test demo_e2e_test identity_test
      limiter_e2e_test
  limiter_test load_child_test node_test observe_test pages_test path_e2e_test sim_node_unit_test sim_nvml_test
      slot_test
  tenancy_test)

# threads: threads share the code that it checks (dev/sanitize tsan).
set(HEADGATE_TESTS_threads
  account_test api_test channel_agent_test channel_test cli_watcher_test gpu_page_test http_client_test http_server_test
  limiter_test node_test observe_test oom_wait_test power_test slot_test tenancy_test registration_server_test wake_test
      zeusd_api_test)

# Counts as half a processor, because it mostly waits. Others count as one (dev/test runs four halves at once).
set(HEADGATE_TESTS_waiting
  api_test channel_agent_test daemon_observe_test daemon_scheduler_test daemon_shares_test http_server_test
  limiter_e2e_test limiter_registration_test registration_server_test)

# Longest first; seconds as measured.
set(HEADGATE_TESTS_cost
  daemon_shares_test=95 daemon_observe_test=90 limiter_compute_test=60 arbiter_e2e_test=50 compute_gang_test=39
      daemon_e2e_test=35
  promises_exactness_test=35 daemon_hang_test=30 compute_exactness_test=30 arbiter_exactness_test=30
      daemon_attack_test=30
  daemon_scheduler_test=30 daemon_chaos_test=25 demo_e2e_test=24 crash_test=20 limiter_pool_test=20 cli_e2e_test=17
  limiter_graphs_test=15 sim_faults_limiter_test=15 limiter_e2e_test=14)

# Compiled file by file even if HEADGATE_TOGETHER is set: whole programs, and files with the same name as another file.
set(HEADGATE_TESTS_apart identity_test node_test observe_test)
set(HEADGATE_TEST_FILES_apart
  names_test.cpp visible_test.cpp cli_top_test.cpp checkpoint_test.cpp texture_test.cpp external_semaphore_test.cpp
  environment_test.cpp pool_test.cpp context_growth_test.cpp user_object_test.cpp balance_test.cpp ipc_test.cpp)
