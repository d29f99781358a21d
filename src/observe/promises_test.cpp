// Scripted snapshots, one second of virtual time apart.
#include "observe/promises.hpp"

#include <gtest/gtest.h>

namespace headgate::observe {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
const std::string kGpu = "GPU-0000";

class PromisesTest : public ::testing::Test {
 protected:
  PromisesTest() {
    snapshot::Gpu gpu;
    gpu.uuid = kGpu;
    gpu.policy = gpu.policy_in_force = "fair";
    gpu.compute_committed_ratio = 0.5;
    now_.gpus = {gpu};
    now_.taken_ns = 50 * kSecond;
    add("paid", 0.5);
    add("other", 0);
  }
  void add(const std::string& name, double promised) {
    snapshot::Share share;
    share.name = name;
    share.owner_uid = 1000;
    share.state = "ok";
    share.processes = 1;
    snapshot::ShareDevice device;
    device.uuid = kGpu;
    device.priority_class = "normal";
    device.compute_guarantee_ratio = promised;
    share.devices = {device};
    now_.shares.push_back(share);
  }
  snapshot::Share& share(std::size_t number) { return now_.shares[number]; }
  snapshot::ShareDevice& device(std::size_t number) { return share(number).devices[0]; }
  // "paid" wants all of the time and has `paid` of the GPU, "other" has `other`. Returns the events' texts, in lines.
  std::string seconds(int count, double paid, double other, std::uint64_t passed_ns = kSecond) {
    std::string texts;
    for (int i = 0; i < count; ++i) {
      const auto ns = [passed_ns](double part) {
        return static_cast<std::uint64_t>(part * static_cast<double>(passed_ns));
      };
      now_.taken_ns += passed_ns;
      wanted_ns_ += static_cast<std::int64_t>(passed_ns);
      device(0).held_ns += ns(paid);
      device(1).held_ns += ns(other);
      device(0).launches += launches_;
      device(1).launches += other_launches_;
      for (const auto& event : promises_.look(
               now_, [this](const std::string& name, const std::string&) { return name == "paid" ? wanted_ns_ : 0; })) {
        EXPECT_EQ(event.kind, "share.short");
        EXPECT_EQ(event.share, "paid");
        EXPECT_EQ(event.uuid, kGpu);
        EXPECT_EQ(event.owner_uid, 1000u);
        texts += event.text + "\n";
      }
    }
    return texts;
  }
  // The cause in the event after ten seconds in which "paid" had 30 % and "other" 69 %.
  std::string cause() {
    const std::string text = seconds(11, 0.3, 0.69);
    const std::string before =
        "paid is promised 50 % and had 30 % on GPU 0 in the last 10 s, wanting it 100 % of the time: ";
    EXPECT_TRUE(text.starts_with(before)) << text;
    return text.size() > before.size() ? text.substr(before.size(), text.size() - before.size() - 1) : text;
  }

  snapshot::Snapshot now_;
  Promises promises_;
  std::int64_t wanted_ns_ = 0;
  std::uint64_t launches_ = 1000, other_launches_ = 1000;
};

TEST_F(PromisesTest, StaySilentWhileAPromiseIsKept) {
  EXPECT_EQ(seconds(60, 0.5, 0.49), "");
  EXPECT_EQ(seconds(60, 0.481, 0.5), "") << "within two points";
  EXPECT_TRUE(device(0).short_cause.empty());
  EXPECT_NEAR(device(0).had_ratio.value_or(0), 0.481, 1e-6);
  EXPECT_NEAR(device(0).wanted_ratio.value_or(0), 1, 1e-6);
  EXPECT_NEAR(device(0).short_ratio.value_or(0), 0.019, 1e-6);
  EXPECT_NEAR(device(1).had_ratio.value_or(0), 0.5, 1e-6);
  EXPECT_EQ(device(1).short_ratio, 0.0);
}

TEST_F(PromisesTest, ReportOnceUntilAPromiseWasKeptFor10s) {
  EXPECT_EQ(seconds(10, 0.3, 0.69), "") << "ten seconds are not over";
  EXPECT_NE(seconds(1, 0.3, 0.69), "");
  EXPECT_EQ(seconds(60, 0.3, 0.69), "");
  EXPECT_EQ(device(0).short_cause, "unknown");
  EXPECT_NEAR(static_cast<double>(device(0).short_ns), 70 * 0.2e9, 1e6);
  EXPECT_EQ(seconds(12, 0.5, 0.49), "");
  EXPECT_TRUE(device(0).short_cause.empty());
  EXPECT_EQ(seconds(20, 0.3, 0.69), "") << "kept for too short a time to be news again";
  EXPECT_EQ(seconds(25, 0.5, 0.49), "");
  EXPECT_NE(seconds(20, 0.3, 0.69), "");
}

TEST_F(PromisesTest, StaySilentAboutAPastShortage) {
  seconds(1, 0.5, 0.49);
  EXPECT_EQ(seconds(4, 0.3, 0.69), "") << "programs start";
  EXPECT_EQ(seconds(30, 0.5, 0.49), "");
  EXPECT_NE(seconds(8, 0.3, 0.69), "");
}

TEST_F(PromisesTest, OweNothingToAnOvercommittedShare) {
  share(0).overcommit = true;
  EXPECT_EQ(seconds(30, 0.1, 0.89), "");
  EXPECT_EQ(device(0).short_ratio, 0.0);
}

TEST_F(PromisesTest, HaveNoFiguresForUnmeasuredWork) {
  device(0).metered = false;
  share(1).problem = "its page is damaged";
  EXPECT_EQ(seconds(30, 0.1, 0.89), "");
  EXPECT_FALSE(device(0).had_ratio || device(0).short_ratio || device(1).had_ratio);
}

TEST_F(PromisesTest, StartOverForARecreatedShare) {
  seconds(10, 0.3, 0.69);
  ++share(0).generation;
  EXPECT_EQ(seconds(10, 0.3, 0.69), "");
  EXPECT_NEAR(static_cast<double>(device(0).short_ns), 9 * 0.2e9, 1e6);
}

TEST_F(PromisesTest, ShowTheLastFiguresInBetween) {
  seconds(11, 0.3, 0.69);
  snapshot::Snapshot between = now_;
  device(0).had_ratio.reset();
  between.shares[0].devices[0].had_ratio.reset();
  between.shares[0].devices[0].short_cause.clear();
  promises_.fill(between);
  EXPECT_NEAR(between.shares[0].devices[0].had_ratio.value_or(0), 0.3, 1e-6);
  EXPECT_EQ(between.shares[0].devices[0].short_cause, "unknown");
}

TEST_F(PromisesTest, NameAPauseFirst) {
  share(0).state = "paused and draining";
  now_.gpus[0].policy_in_force = "off";
  EXPECT_EQ(cause(), "the share is paused");
}

// Without turns the arbiter does not see which shares want a GPU. The account has given back what neighbours had.
TEST_F(PromisesTest, NameThePolicyOff) {
  now_.gpus[0].policy_in_force = "off";
  EXPECT_EQ(cause(), "the GPU's policy is off: promises are not kept there");
  now_.gpus[0].mps_clients = 2;
  seconds(1, 0.3, 0.69);
  EXPECT_EQ(device(0).short_cause,
            "the GPU's policy is off while programs are clients of an MPS server: promises are not kept there");
}

TEST_F(PromisesTest, NameAHigherClassUnderPriority) {
  now_.gpus[0].policy_in_force = "priority";
  device(0).priority_class = "best-effort";
  EXPECT_EQ(cause(), "the GPU's policy is priority, and a share of a higher class is at work");
}

TEST_F(PromisesTest, IgnoreAnIdleHigherClass) {
  now_.gpus[0].policy_in_force = "priority";
  device(0).priority_class = "best-effort";
  seconds(11, 0.3, 0);
  EXPECT_EQ(device(0).short_cause, "unknown");
}

TEST_F(PromisesTest, NamePromisesAboveTheGpu) {
  now_.gpus[0].compute_committed_ratio = 1.3;
  EXPECT_EQ(cause(), "more than 100 % of the GPU is promised: 130 %");
}

TEST_F(PromisesTest, NameAShareOfClassLatency) {
  device(1).priority_class = "latency";
  EXPECT_EQ(cause(), "a share of class latency, which is never kept waiting, takes it");
}

TEST_F(PromisesTest, IgnoreALatencyShareSmallerThanTheShortage) {
  device(1).priority_class = "latency";
  seconds(11, 0.3, 0.1);
  EXPECT_EQ(device(0).short_cause, "unknown");
}

TEST_F(PromisesTest, NameWorkOutsideShares) {
  snapshot::Process process;
  process.pid = 7;
  process.devices = {{.uuid = kGpu, .driver_bytes = {}, .ledger_bytes = 0, .busy_ratio = 0.4, .mps = false}};
  now_.processes = {process};
  EXPECT_EQ(cause(), "work that no share measures keeps the GPU busy");
}

// Both of the account's windows: it takes slices of programs that leave no marks for its own.
TEST_F(PromisesTest, SubtractOutsideWorkFromTheAccount) {
  snapshot::Process process;
  process.pid = 7;
  process.devices = {{.uuid = kGpu, .driver_bytes = {}, .ledger_bytes = 0, .busy_ratio = 0.33, .mps = false}};
  now_.processes = {process, process};
  EXPECT_EQ(seconds(11, 0.99, 0),
            "paid is promised 50 % and had 34 % on GPU 0 in the last 10 s, wanting it 100 % of the time: work that no "
            "share measures keeps the GPU busy\n");
  EXPECT_NEAR(device(0).had_ratio.value_or(0), 0.34, 1e-6);
  EXPECT_NEAR(device(0).wanted_ratio.value_or(0), 1, 1e-6);
  now_.processes[0].devices[0].busy_ratio = now_.processes[1].devices[0].busy_ratio = 0.01;
  seconds(11, 0.99, 0);
  EXPECT_NEAR(device(0).had_ratio.value_or(0), 0.99, 1e-6);
}

TEST_F(PromisesTest, ReportAnotherCauseOnce) {
  EXPECT_NE(cause(), "");
  now_.gpus[0].policy_in_force = "off";
  EXPECT_NE(seconds(1, 0.3, 0.69).find("the GPU's policy is off"), std::string::npos);
  EXPECT_EQ(seconds(20, 0.3, 0.69), "");
  now_.gpus[0].policy_in_force = "fair";
  EXPECT_EQ(seconds(20, 0.3, 0.69), "") << "that it is unknown was told";
  other_launches_ = 10;
  EXPECT_NE(seconds(20, 0.3, 0.69).find("each launch of another share"), std::string::npos);
  other_launches_ = 8;
  EXPECT_EQ(seconds(20, 0.3, 0.69), "") << "another figure is no other cause";
}

TEST_F(PromisesTest, IgnoreProcessesOfMeasuredShares) {
  snapshot::Process process;
  process.pid = 7;
  process.share = "other";
  process.devices = {{.uuid = kGpu, .driver_bytes = {}, .ledger_bytes = 0, .busy_ratio = 0.4, .mps = false}};
  now_.processes = {process};
  EXPECT_EQ(cause(), "unknown");
  device(1).metered = false;
  seconds(1, 0.3, 0.69);
  EXPECT_EQ(device(0).short_cause, "work that no share measures keeps the GPU busy");
}

TEST_F(PromisesTest, NameLongKernelsOfAnotherShare) {
  other_launches_ = 10;
  EXPECT_EQ(cause(), "each launch of another share keeps the GPU for 69.0 ms, and a kernel is not interrupted");
}

TEST_F(PromisesTest, NameAWaitForMemory) {
  share(0).state = "full";
  EXPECT_EQ(cause(), "an allocation of the share waits for memory, or its memory is full");
}

TEST_F(PromisesTest, NameTheSharesOwnCeiling) {
  device(0).waits_for = "ceiling";
  device(0).compute_ceiling_ratio = 0.5;
  EXPECT_EQ(cause(), "its launches wait for its own ceiling of 50 %");
}

TEST_F(PromisesTest, NameTheDaemonsAbsence) {
  seconds(2, 0.5, 0.49);
  const std::string text = seconds(2, 0.25, 0.74, 6 * kSecond);
  EXPECT_NE(text.find(": the daemon did not run for a while, and gave no turns\n"), std::string::npos) << text;
}

TEST_F(PromisesTest, IgnoreOtherShares) {
  other_launches_ = 10;
  EXPECT_EQ(cause().find("other is"), std::string::npos) << "whose it is, is its owner's affair";
}

}  // namespace
}  // namespace headgate::observe
