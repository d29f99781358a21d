// A share's owner changes its limits while its programs run and wait.
#include <gtest/gtest.h>

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "limiter_compute_share.hpp"

namespace headgate::e2e {
namespace {

class LiveChange : public testing::Test {
 protected:
  void start(const char* compute, const char* us, const char* threads = "1") {
    share_.emplace(compute);
    program_ = share_->start({"forever", us, threads});
    ASSERT_EQ(program_->line(), "running");
    ASSERT_TRUE(comes_true([this] { return share_->account().throttled_launches.load() >= 3; }));
  }
  void set(std::uint32_t ceiling_ppm) {
    ledger::PolicyPage& policy = *share_->pages().writable_policy;
    ledger::DeviceGrant grant = ledger::grant_of(policy).devices[0];
    grant.compute_ceiling_ppm = ceiling_ppm;
    ASSERT_FALSE(ledger::set_limits(policy, 0, grant));
  }
  void command(ledger::Command word) { ledger::set_command(*share_->pages().writable_policy, word); }
  std::uint64_t launches() { return share_->truth().processes.at(0).launches; }
  // Returns the part of node time that the share held since `before` (node time, held time).
  double part_since(std::pair<double, double> before) {
    const auto [at_ns, held_ns] = share_->look();
    return (held_ns - before.second) / (at_ns - before.first);
  }
  void end() {
    program_->close_stdin();
    EXPECT_EQ(program_->wait(), 0);
    EXPECT_EQ(program_->errors(), "");
  }

  std::optional<ComputeShare> share_;
  std::unique_ptr<Program> program_;
};

// At 1 %, the gate is shut for a long time after each kernel. Without the limit that wait must end at once.
TEST_F(LiveChange, ALiftedLimitReleasesWaitingLaunches) {
  start("1%", "200");
  const std::uint64_t before = launches();
  set(ledger::kWholeGpu);
  EXPECT_TRUE(comes_true([&] { return launches() > before + 500; }));
  end();
}

// The usual bound applies from the change on: what was sent ahead before it, then the new part.
TEST_F(LiveChange, ALoweredLimitHoldsAndARaisedOneIsUsed) {
  start("60%", "200");
  set(100'000);
  auto from = share_->look();
  ASSERT_TRUE(comes_true([&] { return share_->look().first > from.first + 400e6; }));
  auto [at_ns, held_ns] = share_->look();
  EXPECT_LE(held_ns - from.second, 0.1 * (at_ns - from.first) + 0.6 * 12e6 + 2e6);
  set(600'000);
  // More than the old part could give: the new one is in use.
  EXPECT_TRUE(comes_true([&] {
    const std::uint64_t before = launches();
    from = share_->look();
    EXPECT_TRUE(comes_true([&] { return launches() > before + 100; }));
    return part_since(from) > 0.12;
  }));
  end();
}

// At 5 % a 20 ms kernel owes 400 ms. The bound is 100 ms; a machine that schedules us late gets ten times as much.
TEST_F(LiveChange, DebtOfALowLimitDoesNotOutlastARaisedOne) {
  share_.emplace("5%");
  program_ = share_->start({"forever", "20000", "1"});
  ASSERT_EQ(program_->line(), "running");
  const auto owed_ns = [this] {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return share_->account().paid_until_ns.load() - (now.tv_sec * 1'000'000'000LL + now.tv_nsec);
  };
  ASSERT_TRUE(comes_true([&] { return owed_ns() > 300'000'000; }));
  const std::uint64_t before = launches();
  const auto from = share_->look();
  set(950'000);
  ASSERT_TRUE(comes_true([&] { return launches() > before + 2; }));
  EXPECT_LT(share_->look().first - from.first, 1e9) << "what was owed at 5 % took longer than that alone";
  end();
}

TEST_F(LiveChange, AShareBurstsAloneAndYieldsToAnother) {
  share_.emplace("30%");
  program_ = share_->start({"forever", "200", "1"}, true, {{"CUDA_CORE_SOFT_LIMIT", "80"}});
  ASSERT_EQ(program_->line(), "running");
  const auto part_over = [this](double ns) {
    const std::uint64_t held = share_->account().held_ns.load();
    const auto from = share_->look();
    EXPECT_TRUE(comes_true([&] { return share_->look().first > from.first + ns; }));
    return static_cast<double>(share_->account().held_ns.load() - held) / (share_->look().first - from.first);
  };
  EXPECT_TRUE(comes_true([&] { return part_over(2e8) > 0.6; })) << "it is alone";
  const auto other =
      share_->start({"forever", "200", "1"}, true, {{"HEADGATE_SHARE", "other"}, {"HEADGATE_COMPUTE", "20%"}});
  ASSERT_EQ(other->line(), "running");
  EXPECT_TRUE(comes_true([&] { return part_over(1e8) < 0.36; })) << "another share works";
  EXPECT_LT(part_over(5e8), 0.36);
  other->kill_now();
  other->wait();
  EXPECT_TRUE(comes_true([&] { return part_over(2e8) > 0.6; })) << "it is alone again";
  end();
}

TEST_F(LiveChange, APausedShareSendsNothingUntilItIsResumed) {
  for (const char* compute : {"50%", "100%"}) {
    SCOPED_TRACE(compute);
    share_.emplace(compute);
    program_ = share_->start({"forever", "200", "4"});
    ASSERT_EQ(program_->line(), "running");
    ASSERT_TRUE(comes_true([this] { return launches() > 50; }));
    command(ledger::Command::pause);
    // Launches that passed the gate arrive, then none during 20 turns of the rule for stuck work.
    std::uint64_t seen = 0;
    ASSERT_TRUE(comes_true([&] {
      const std::uint64_t now = launches();
      const bool still = now == seen;
      seen = now;
      if (!still) ::usleep(20'000);
      return still;
    }));
    ::usleep(400'000);
    EXPECT_EQ(launches(), seen);
    command(ledger::Command::pause_and_drain);
    ::usleep(200'000);
    EXPECT_EQ(launches(), seen) << "being drained sets nothing going";
    command(ledger::Command::drain);
    EXPECT_TRUE(comes_true([&] { return launches() > seen + 50; }));
    command(ledger::Command::run);
    end();
  }
}

// Kernels longer than a turn: none may run on another's account.
TEST_F(LiveChange, APausedShareOfLongKernelsStopsToo) {
  start("80%", "30000", "4");
  command(ledger::Command::pause);
  const auto idle = [this] {
    return share_->truth().processes.at(0).launches == share_->truth().processes.at(0).kernels;
  };
  ASSERT_TRUE(comes_true(idle));
  const std::uint64_t seen = launches();
  ::usleep(300'000);
  EXPECT_EQ(launches(), seen);
  command(ledger::Command::run);
  EXPECT_TRUE(comes_true([&] { return launches() > seen + 3; }));
  end();
}

// A kernel from before the pause spins for one launched after it, which is let through.
TEST_F(LiveChange, WorkFromBeforeAPauseIsNotLeftSpinning) {
  share_.emplace("50%");
  program_ = share_->start({"spinning"});
  ASSERT_EQ(program_->line(), "spinning");
  command(ledger::Command::pause);
  program_->say("go");
  EXPECT_EQ(program_->line(), "met");
  command(ledger::Command::run);
  EXPECT_EQ(program_->line(), "end");
  EXPECT_EQ(program_->wait(), 0);
}

class LongWait : public LiveChange {
 protected:
  std::int64_t since() {
    for (const auto& slot : share_->pages().usage->slots)
      if (const std::int64_t since_ns = slot.devices[0].long_wait_since_ns.load(); since_ns != 0) return since_ns;
    return 0;
  }
  void let_go(const std::string& why) {
    EXPECT_TRUE(comes_true([&] { return since() == 0; })) << "what has passed is still said to wait";
    program_->close_stdin();
    EXPECT_EQ(program_->wait(), 0);
    const std::string said = program_->errors();
    EXPECT_TRUE(said.starts_with("headgate: warning: share compute: a launch on GPU 0 has waited for ")) << said;
    EXPECT_TRUE(said.ends_with(why + "\n")) << said;
    EXPECT_EQ(std::ranges::count(said, '\n'), 1) << "once a minute is enough, however many wait: " << said;
  }
};

// At 1 %, a pause of 2 s after a 20 ms kernel is normal and not reported. A 100 ms kernel makes it 10 s.
TEST_F(LongWait, UnderALowLimitIsReportedWithItsReason) {
  start("60%", "100000");
  set(10'000);
  EXPECT_TRUE(comes_true([this] { return since() != 0; }));
  set(600'000);
  let_go(": the share has used its 1 % of the GPU's time");
}

TEST_F(LongWait, OfAPausedShareIsReportedUntilResumed) {
  start("50%", "200", "3");
  command(ledger::Command::pause);
  EXPECT_TRUE(comes_true([this] { return since() != 0; }));
  command(ledger::Command::run);
  let_go(": the share is paused");
}

// While a launch waits, the account shows the wait, exactly as long as it lasts.
TEST_F(LiveChange, AWaitingLaunchIsShownAndItsProgramNotFrozen) {
  start("50%", "200");
  command(ledger::Command::pause);
  const auto waited_ns = [this] {
    return share_->account().waited_ns[static_cast<std::uint32_t>(ledger::WaitReason::pause)].load();
  };
  ASSERT_TRUE(comes_true([&] { return waited_ns() > 0; }));
  ledger::set_value(*share_->pages().writable_policy, &ledger::PolicyPage::freeze_after_s, 1);
  const std::uint64_t before_ns = waited_ns(), passed = share_->account().throttled_launches.load();
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(comes_true([&] { return waited_ns() > before_ns + 3'000'000'000; }));
  EXPECT_EQ(share_->account().throttled_launches.load(), passed) << "it still waits";
  EXPECT_GT(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(2900)) << "told twice";
  EXPECT_EQ(share_->pages().usage->freezes.load(), 0u) << "it was taken for idle";
  command(ledger::Command::run);
  EXPECT_TRUE(comes_true([&] { return share_->account().throttled_launches.load() > passed; }));
  std::uint64_t all_ns = 0;
  end();
  for (const auto& each : share_->account().waited_ns) all_ns += each.load();
  EXPECT_EQ(all_ns, share_->account().throttled_ns.load());
}

}  // namespace
}  // namespace headgate::e2e
