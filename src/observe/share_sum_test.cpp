#include "observe/share_sum.hpp"

#include <gtest/gtest.h>

#include "observe/test_books.hpp"

namespace headgate::observe {
namespace {

struct Node : TestBooks<ShareSum> {
  explicit Node(std::uint32_t processes, ComputeRules rules = {}) : TestBooks(processes, 0, std::move(rules)) {}
};

TEST(ShareSum, SmallWorkOfManyProcessesIsReportedTogether) {
  Node node(6);
  for (int i = 0; i < 2; ++i) {
    node.pass(kSecond, 0.17, 0);
    EXPECT_TRUE(node.check.of(1, kGpu));
    EXPECT_FALSE(node.named(1)) << "no sooner than one process alone";
  }
  node.pass(kSecond, 0.17, 0);
  for (std::uint32_t pid = 1; pid <= 6; ++pid) ASSERT_TRUE(node.named(pid)) << pid;
  EXPECT_EQ(node.check.of(3, kGpu)->text,
            "keeps 17 % on GPU 0 busy according to the driver, 6 processes of its share together 96 %, the whole share "
            "0 % according to its ledger");
  EXPECT_FALSE(node.check.is_proven("alice"));
  node.pass(kSecond, 0.17, kSecond);
  EXPECT_FALSE(node.check.of(1, kGpu)) << "its account tells";
  EXPECT_TRUE(node.check.is_proven("alice"));
}

TEST(ShareSum, ShortKernelsOfManyProcessesAccuseNone) {
  for (const std::uint64_t held : {200 * kMs, 100 * kMs, 60 * kMs}) {
    Node node(6);
    for (int i = 0; i < 30; ++i) {
      node.pass(kSecond, 0.17, held, 100);
      ASSERT_FALSE(node.check.of(1, kGpu)) << held;
    }
    EXPECT_FALSE(node.check.is_proven("alice")) << "it has told of less than half";
  }
}

// The driver reports whole percents: each of 60 processes that hardly ran may be called 1 % busy.
TEST(ShareSum, RoundedUpFiguresDoNotAddUp) {
  Node node(60);
  for (int i = 0; i < 10; ++i) node.pass(kSecond, 0.01, 5 * kMs, 1);
  EXPECT_FALSE(node.check.of(1, kGpu));
}

TEST(ShareSum, CopiesCountAndLittleWorkIsNotChecked) {
  Node copying(6);
  for (int i = 0; i < 10; ++i) {
    for (std::uint32_t pid = 1; pid <= 6; ++pid) copying.words(pid).copy_ns += kSecond / 2;
    copying.pass(kSecond, 0.10, 0);
    EXPECT_FALSE(copying.check.of(1, kGpu));
  }
  Node little(6);
  for (int i = 0; i < 10; ++i) little.pass(kSecond, 0.04, 0);
  EXPECT_FALSE(little.check.of(1, kGpu)) << "24 %, of which 6 may be rounded";
}

TEST(ShareSum, LongKernelsAreTrustedAsLongAsOfOneProcess) {
  Node node(6);
  for (std::uint32_t pid = 1; pid <= 6; ++pid) node.words(pid).working = true;
  for (int i = 0; i < 25; ++i) node.pass(kSecond, 0.17, 0);
  EXPECT_FALSE(node.check.of(1, kGpu));
  for (int i = 0; i < 15; ++i) node.pass(kSecond, 0.17, 0);
  EXPECT_TRUE(node.named(1));
}

TEST(ShareSum, UnmeteredAndStoppedProcessesAreNotChecked) {
  Node node(6);
  for (std::uint32_t pid = 1; pid <= 6; ++pid) node.words(pid).metered = false;
  for (int i = 0; i < 10; ++i) node.pass(kSecond, 0.17, 0);
  for (std::uint32_t pid = 1; pid <= 6; ++pid) node.words(pid).metered = true;
  for (int i = 0; i < 10; ++i) {
    node.pass(kSecond, 0.17, 0);
    EXPECT_FALSE(node.named(1)) << i;
  }
  for (int i = 0; i < 5; ++i) node.pass(kSecond, 0.17, 0);
  EXPECT_TRUE(node.named(1));
  Node stopped(6, {.frozen = [](std::uint32_t) { return true; }});
  for (int i = 0; i < 10; ++i) stopped.pass(kSecond, 0.17, 0);
  EXPECT_FALSE(stopped.check.of(1, kGpu));
}

TEST(ShareSum, ProcessesWithLaunchesAreNotReportedBesideOthers) {
  Node node(6);
  for (int i = 0; i < 4; ++i) {
    node.words(1).launches += 10;
    node.pass(kSecond, 0.17, 0);
  }
  EXPECT_FALSE(node.named(1));
  EXPECT_TRUE(node.named(2));
}

TEST(ShareSum, LaunchesBlockedByWorkInFlightAreNeverCertain) {
  Node node(6);
  for (std::uint32_t pid = 1; pid <= 6; ++pid) node.words(pid).working = true;
  node.pass(kSecond, 0.17, kSecond, 10);
  const auto pass = [&] {
    for (std::uint32_t pid = 1; pid <= 6; ++pid) node.words(pid).share_launches += 60;
    node.pass(kSecond, 0.17, 60 * 200'000, 10);
  };
  for (int i = 0; i < 28; ++i) {
    pass();
    ASSERT_FALSE(node.check.of(1, kGpu)) << i;
  }
  for (int i = 0; i < 10; ++i) pass();
  ASSERT_TRUE(node.named(1));
  EXPECT_FALSE(node.check.of(1, kGpu)->certain);
}

TEST(ShareSum, AStaleAccountIsCertainUnlessTheDaemonStalled) {
  Node node(6);
  for (int i = 0; i < 10; ++i) {
    node.pass(20 * kSecond, 0.17, 500 * kMs, 10);
    ASSERT_FALSE(node.check.of(1, kGpu)) << i;
  }
  for (int i = 0; i < 3; ++i) node.pass(kSecond, 0.17, 0, 10);
  ASSERT_TRUE(node.named(1));
  EXPECT_TRUE(node.check.of(1, kGpu)->certain);
}

// The driver reports ended work for a second more, of each process that takes turns.
TEST(ShareSum, TurnsReportedASecondLateAccuseNone) {
  for (const std::uint64_t period : {kSecond / 10, kSecond}) {
    Node node(6);
    std::uint64_t worked[7] = {};
    for (std::uint64_t at = 0; at < 60 * kSecond; at += period) {
      const auto turn = static_cast<std::uint32_t>(at / (2 * kSecond) % 12);  // half of the time no process's
      std::uint64_t held = 0;
      for (auto& process : node.snapshot.processes) {
        const bool works = process.pid == turn + 1;
        if (works) held = period / 5, worked[process.pid] = at + period;
        const bool told = worked[process.pid] != 0 && at + period <= worked[process.pid] + kSecond;
        process.devices[0].busy_ratio = told ? std::optional(0.25) : std::nullopt;
      }
      for (std::uint32_t pid = 1; pid <= 6; ++pid) node.words(pid).held_ns += held;
      node.look(period);
      for (std::uint32_t pid = 1; pid <= 6; ++pid) ASSERT_FALSE(node.named(pid)) << period << " " << at;
    }
  }
}

}  // namespace
}  // namespace headgate::observe
