// What the limiter leaves unchanged in a process, and that no process waits for a stopped one.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "limiter_run.hpp"

namespace {

using namespace headgate::e2e;

// HAMi-core took over SIGUSR1 and SIGUSR2 (a Java VM crashed: HC#160), set the umask, and printed lines that broke
// parsers (HAMi#1340).
TEST(Manners, KeepHandlersMasksLimitsAndOutput) {
  const auto said = [](bool limited) {
    const Runtime runtime;
    Tenant tenant{.environment = {{"HEADGATE_MEM", "3GiB"}, {"HEADGATE_COMPUTE", "50%"}}};
    tenant.limited = limited;
    tenant.driver = Driver::simulated;
    tenant.program = "limiter_manners";
    const Outcome outcome = runtime.run(tenant, {});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return outcome.out;
  };
  const std::string without = said(false);
  ASSERT_NE(without.find("before: handlers 10:the program's 11:the program's 12:the program's 13:ignored"),
            std::string::npos)
      << without;
  ASSERT_NE(without.find("answers 0 0 0 0 0 0 0 0, 0 failed"), std::string::npos) << without;
  EXPECT_EQ(without.find("CHANGED"), std::string::npos) << without;
  EXPECT_EQ(said(true), without);
}

// HAMi-core: processes started one after the other, behind a lock; a dead owner cost 327 s (HC#243, HC#248, HC#253).
TEST(Startup, ProcessesStoppedWhileJoiningBlockNoOther) {
  const Runtime runtime;
  Tenant tenant{.environment = {{"HEADGATE_MEM", "1MiB"}, {"HEADGATE_SHARE", "stopped"}, {"PROBE_WAIT", "1"}}};
  std::vector<Runtime::Running> stopped;
  for (int i = 0; i < 40; ++i) {
    stopped.push_back(runtime.start(tenant, {"alloc", "1"}));
    std::this_thread::sleep_for(std::chrono::microseconds(500 * (i % 20)));
    ASSERT_EQ(::kill(stopped.back().pid(), SIGSTOP), 0);
  }
  auto next = runtime.start(tenant, {"alloc", "1000000"});
  EXPECT_EQ(next.next_line(), "ready: 0");
  EXPECT_EQ(next.next_line(), "alloc 1000000: 0");
  for (auto& process : stopped) process.kill_and_wait();
  next.finish();
}

}  // namespace
