// A change of limits, from the daemon's socket to a waiting launch. It is in the page when the caller gets the reply,
// and takes effect long before the launch would have continued. dev/bench measures how fast; a loaded machine cannot.
#include "daemon_program.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "guest/ledger/pages.hpp"

namespace headgate::e2e {
namespace {

// Returns how often the program's launching thread has slept so far.
std::uint64_t sleeps_of(std::uint32_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("voluntary_ctxt_switches:")) return std::stoull(line.substr(line.find(':') + 1));
  return 0;
}

TEST(Live, AChangedLimitWakesALaunchAtItsGate) {
  const Daemon daemon;
  // A kernel of 20 ms under 1 % blocks the next one for almost 2 s. At 100 % the debt is at most 20 ms.
  ASSERT_EQ(daemon.cli().shell("$H share create s --mem 8GiB --compute 1%").status, 0);
  Program tenant({HEADGATE_COMMAND, "run", "--share", "s", "--", HEADGATE_LOAD, "--mem=1GiB", "--duration=60s",
                  "--kernels=20ms", "--no-idle-list"},
                 {{"HEADGATE_RUNTIME_DIR", daemon.cli().runtime()}});
  ledger::SharePages pages;
  ASSERT_FALSE(ledger::open_share(daemon.cli().runtime().c_str(), "s", ledger::Access::owner, pages));
  // Counts launches that had to wait, when they continue.
  const auto launches = [&] { return pages.usage->compute[0].throttled_launches.load(); };
  const auto epoch = [&] { return pages.policy->devices[0].gate_epoch.load(); };
  ASSERT_TRUE(eventually([&] { return !daemon.snapshot().processes.empty() && launches() > 0; }));
  const std::uint32_t pid = daemon.snapshot().processes[0].pid;
  // Just after a launch continued, so that the next waits for almost all of that time.
  std::uint64_t before = launches();
  ASSERT_TRUE(eventually([&] { return launches() > before + 1; })) << "no launch is held";
  before = launches();
  rest_ms(100);

  const std::uint64_t sleeps = sleeps_of(pid);
  const std::uint32_t seen = epoch();
  const auto sent = std::chrono::steady_clock::now();
  EXPECT_EQ(daemon.ask("PATCH", "/v1/shares/s", R"({"compute":"100%"})").status, 200);
  EXPECT_NE(epoch(), seen) << "the page has the new limit when the caller has his answer";
  const auto since = [&] { return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - sent); };
  while (launches() == before && since() < std::chrono::seconds(1))
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  EXPECT_GT(launches(), before) << "it slept on as if nothing had changed";
  const double took_ms = since().count();
  std::printf("from the PATCH to the first launch after it: %.1f ms, in which its thread went to sleep %llu times\n",
              took_ms, static_cast<unsigned long long>(sleeps_of(pid) - sleeps));
  ledger::close_pages(pages);
  ::kill(tenant.pid(), SIGTERM);
  tenant.wait();
}

}  // namespace
}  // namespace headgate::e2e
