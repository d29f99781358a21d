// Processes, forks, contexts, streams and modules that come and go. Whatever ends, the rest stays metered and limited,
// and the account is correct.
#include <gtest/gtest.h>

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "limiter_compute_share.hpp"
#include "sim/node.hpp"
#include "sim/profile.hpp"

namespace headgate::e2e {
namespace {

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

class KilledAtTheGate : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Signals, KilledAtTheGate, testing::Values(SIGTERM, SIGKILL));

// At 5 %, each thread waits at the shut gate nearly all of the time.
TEST_P(KilledAtTheGate, LeavesTheShareToTheNextProcess) {
  ComputeShare share("5%");
  const auto first = share.start({"forever", "200", "4"});
  ASSERT_EQ(first->line(), "running");
  ASSERT_TRUE(comes_true([&] { return share.account().throttled_launches.load() >= 20; }));
  ASSERT_EQ(share.live_slots(), 1U);
  ::kill(first->pid(), GetParam());
  EXPECT_EQ(first->wait(), 128 + GetParam());
  EXPECT_EQ(share.live_slots(), 0U);
  const sim::ProcessTruth dead = share.truth().processes.at(0);
  EXPECT_FALSE(dead.alive);
  // It was charged at most 1 ms and a command in advance. At 5 % the survivors wait no longer than that.
  EXPECT_LE(share.account().paid_until_ns.load() - now_ns(), 2'000'000 * 20);
  const std::uint64_t held = share.account().held_ns.load();
  EXPECT_NEAR(static_cast<double>(held), static_cast<double>(dead.held_ns),
              0.01 * static_cast<double>(dead.held_ns) + 5'000.0 * static_cast<double>(dead.records) / 2 + 1'400'000);
  share.run({"busy", "200", "2", "60", "sync"});
  const sim::ProcessTruth next = share.truth().processes.back();
  const auto truth_ns = static_cast<double>(next.held_ns);
  EXPECT_NEAR(static_cast<double>(share.account().held_ns.load() - held), truth_ns,
              0.02 * truth_ns + 5'000.0 * static_cast<double>(next.records) / 2 + 300'000);
  EXPECT_EQ(share.live_slots(), 0U);
}

TEST(Fork, TheChildIsUnmeteredAndItsParentIsMeteredOn) {
  ComputeShare share("50%");
  const auto program = share.start({"fork", "300"});
  EXPECT_EQ(program->line(), "child");
  EXPECT_EQ(program->line(), "child asks: 3");
  EXPECT_EQ(program->line(), "child launches: 3");
  EXPECT_EQ(share.live_slots(), 1U);
  share.expect_metered(300 + 50 + 300);  // all by the parent
  share.expect_exact();
  EXPECT_GT(share.account().throttled_launches.load(), 0U);
  EXPECT_EQ(share.live_slots(), 1U);  // the child lives, but has no slot
  program->close_stdin();
  EXPECT_EQ(program->wait(), 0);
  EXPECT_EQ(program->errors(), "");
  EXPECT_EQ(share.live_slots(), 0U);
}

struct Churn {
  const char* what;
  int times, launches;
};
void PrintTo(const Churn& churn, std::ostream* out) { *out << churn.times << ' ' << churn.what; }

class Churned : public testing::TestWithParam<Churn> {};
INSTANTIATE_TEST_SUITE_P(Handles, Churned,
                         testing::Values(Churn{"streams", 1000, 3}, Churn{"modules", 300, 1},
                                         Churn{"contexts", 1000, 4}, Churn{"primary", 300, 4},
                                         Churn{"retained", 300, 3}, Churn{"reset", 300, 4}));

TEST_P(Churned, AreMeteredThroughoutAndLeaveNothing) {
  const auto [what, times, launches] = GetParam();
  ComputeShare share("50%");
  const auto program = share.start({"churn", what, std::to_string(times)});
  ASSERT_EQ(program->line(), "churned");
  const std::uint64_t throttled = share.account().throttled_ns.load();
  share.expect_launched(*program);
  share.expect_metered(static_cast<std::uint64_t>(times) * static_cast<unsigned>(launches) + 400);
  share.expect_exact();
  EXPECT_GT(share.account().throttled_ns.load(), throttled) << "no longer held";
  program->close_stdin();
  EXPECT_EQ(program->wait(), 0);
  EXPECT_EQ(program->errors(), "");
}

TEST(TwoContexts, AreBothMeteredByDefaultStreamHandlesToo) {
  ComputeShare share("50%");
  const auto program = share.start({"two-contexts", "40"});
  share.expect_launched(*program);
  share.expect_metered(60 + 40 * 10);
  // Two contexts get slices of the GPU, so no bracket of either is exact. One that is left out would be half.
  EXPECT_GT(static_cast<double>(share.account().held_ns.load()), 0.8 * static_cast<double>(share.truth().busy_ns));
  program->close_stdin();
  EXPECT_EQ(program->wait(), 0);
  EXPECT_EQ(program->errors(), "");
}

TEST(TwoContexts, ALaunchInTheOtherContextIsMetered) {
  ComputeShare share("50%");
  const auto program = share.start({"wrong-context", "200"});
  share.expect_launched(*program);
  share.expect_metered(200);
  share.expect_exact();
  program->close_stdin();
  EXPECT_EQ(program->wait(), 0);
  EXPECT_EQ(program->errors(), "");
}

TEST(TwoGpus, ALaunchOnBothIsMeteredAndHeldOnEach) {
  ComputeShare share("50%", "l40s-x2");
  const auto program = share.start({"together", "200"});
  share.expect_launched(*program);
  for (const unsigned device : {0U, 1U}) {
    share.expect_exact(device);
    EXPECT_GT(share.account(device).held_ns.load(), 30'000'000U);
  }
  EXPECT_GT(share.account(0).throttled_launches.load() + share.account(1).throttled_launches.load(), 0U);
  program->close_stdin();
  EXPECT_EQ(program->wait(), 0);
  EXPECT_EQ(program->errors(), "");
}

// Launches overtaken by another thread's close are in no bracket: at most one per close.
TEST(Stress, OfThreadsContextsAndForksLosesNoLaunch) {
  ComputeShare share("50%");
  const auto program = share.start({"stress", "12", "60"});
  share.expect_launched(*program);
  const sim::ProcessTruth truth = share.truth().processes.at(0);
  EXPECT_EQ(truth.launches, 12U * 60 * 8);
  const std::uint64_t metered = share.metered_launches(truth.launches * 98 / 100);
  EXPECT_GE(metered, truth.launches * 98 / 100);
  EXPECT_LE(metered, truth.launches);
  EXPECT_GT(share.account().throttled_launches.load(), 0U);
  EXPECT_EQ(share.live_slots(), 1U);
  program->close_stdin();
  EXPECT_EQ(program->wait(), 0);
  EXPECT_EQ(program->errors(), "");
}

TEST(ManyContexts, AreAllMeteredAndHeld) {
  ComputeShare share("50%", "h200");
  const auto program = share.start({"contexts", "64", "10"}, true, {{"HEADGATE_MEM", "64GiB"}});  // 520 MiB each
  share.expect_launched(*program);
  share.expect_metered(640);
  share.expect_exact();
  EXPECT_GT(share.account().throttled_ns.load(), 100'000'000U) << "320 ms of work at half a GPU";
  program->close_stdin();
  EXPECT_EQ(program->wait(), 0);
  EXPECT_EQ(program->errors(), "");
}

// With fail policy closed, launches that cannot be measured are refused.
TEST(Threadless, AProcessWithoutAThreadFollowsItsFailPolicy) {
  if (::access("/proc/self", F_OK) != 0)
    GTEST_SKIP() << "skipped: only /proc tells how much address space a program has";
  for (const bool closed : {true, false}) {
    ComputeShare share("50%");
    const auto program = share.start({"threadless"}, true, {{"HEADGATE_FAIL_POLICY", closed ? "closed" : "open"}});
    program->close_stdin();
    EXPECT_EQ(program->line(), closed ? "800" : "0");
    EXPECT_EQ(program->wait(), 0);
    EXPECT_NE(program->errors().find("no thread for measuring GPU time"), std::string::npos);
  }
}

// Each NVML call takes 100 ms, and a measurement makes several.
TEST(SlowNvml, DelaysNoSettlement) {
  ComputeShare share("50%");
  const auto program = share.start({"moving", "200"}, true, {{"HEADGATE_SIM_FAULT", "nvml*:delay_us=100000"}});
  ASSERT_EQ(program->line(), "running");
  double worst_ns = 0;
  for (int look = 0; look < 100; ++look) {
    ::usleep(10'000);
    const auto held = static_cast<double>(share.account().held_ns.load());
    worst_ns = std::max(worst_ns, static_cast<double>(share.truth().busy_ns) - held);
  }
  std::printf("the account was at most %.1f ms behind the GPU\n", worst_ns / 1e6);
  EXPECT_LT(worst_ns, 40e6);
  program->close_stdin();
  EXPECT_EQ(program->wait(), 0);
}

// Concurrent copies on several streams count once. The time in the call counts too, because the driver stages data in
// it. So does a stall of the program between two records, which a busy machine brings.
TEST(Copies, AreMeasuredInASeparateAccount) {
  for (const char* streams : {"0", "1", "4"}) {
    SCOPED_TRACE(streams);
    ComputeShare share("50%");
    const auto began = std::chrono::steady_clock::now();
    const auto program = share.start({"copies", "40", "16777216", streams});
    const double calls = 40 * std::stod(program->line());
    const std::chrono::duration<double, std::nano> wall = std::chrono::steady_clock::now() - began;
    double truth = 0, ours = 0;
    for (int tries = 0; tries < 1000; ++tries) {
      truth = static_cast<double>(share.truth().processes.at(0).copy_ns);
      ours = static_cast<double>(share.account().copy_ns.load());
      if (ours > 0.95 * truth) break;
      ::usleep(5'000);
    }
    std::printf("copied for %.1f ms, measured %.1f, in calls %.1f\n", truth / 1e6, ours / 1e6, calls / 1e6);
    EXPECT_GT(truth, 5e6);
    EXPECT_GT(ours, 0.95 * truth);
    EXPECT_LT(ours, wall.count()) << "a moment counts once, however many copies run in it";
    EXPECT_EQ(share.account().held_ns.load(), 0U) << "a copy is no kernel";
    program->close_stdin();
    EXPECT_EQ(program->wait(), 0);
    EXPECT_EQ(program->errors(), "");
  }
}

// Work that a program queues behind a waiting kernel fits the driver's queue. It must still fit with the limiter's
// records.
TEST(QueueRoom, BelongsToTheProgram) {
  struct Case {
    const char *kind, *count;
    std::uint32_t depth;
  };
  for (const Case& one : {Case{"launches", "100", 128}, Case{"timed", "50", 128}, Case{"value", "58", 128},
                          Case{"host", "58", 128}, Case{"copies", "900", 1024}}) {
    SCOPED_TRACE(one.kind);
    Directory directory;
    sim::Profile profile = *sim::find_profile("tiny");
    profile.launch_queue_depth = one.depth;
    ASSERT_TRUE(sim::create_node(directory.path() + "/node", profile));
    ComputeShare share("50%");
    for (const bool limited : {false, true}) {
      const auto program =
          share.start({"queued", one.kind, one.count}, limited, {{"HEADGATE_SIM_DIR", directory.path() + "/node"}});
      EXPECT_EQ(program->line(), "end") << (limited ? "with" : "without") << " the limiter";
      EXPECT_EQ(program->wait(), 0);
    }
  }
}

TEST(ManyStreams, AreAllHeld) {
  ComputeShare share("50%");
  const auto program = share.start({"many-streams", "700"});
  share.expect_launched(*program);
  share.expect_metered(1400);
  share.expect_exact();
  program->close_stdin();
  EXPECT_EQ(program->wait(), 0);
  EXPECT_EQ(program->errors(), "");
}

}  // namespace
}  // namespace headgate::e2e
