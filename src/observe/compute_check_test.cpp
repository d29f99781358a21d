#include "observe/compute_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "observe/test_books.hpp"

namespace headgate::observe {
namespace {

struct Node : TestBooks<ComputeCheck> {
  explicit Node(ComputeRules rules = {}) : TestBooks(1, 100, std::move(rules)) {}
};

TEST(ComputeCheck, AnEmptyAccountOfABusyProcessIsReportedIn3s) {
  Node node;
  node.pass(kSecond, 0.9, 0);
  EXPECT_TRUE(node.check.of(1, kGpu)) << "suspected from the first";
  EXPECT_FALSE(node.named());
  node.pass(kSecond, 0.9, 0);
  EXPECT_FALSE(node.named());
  node.pass(kSecond, 0.9, 0);
  ASSERT_TRUE(node.named());
  EXPECT_EQ(node.check.of(1, kGpu)->text,
            "keeps 90 % on GPU 0 busy according to the driver, the whole share 0 % according to its ledger");
  EXPECT_FALSE(node.check.is_proven("alice"));
  // It no longer is once the account shows it.
  node.pass(kSecond, 0.9, 900 * kMs);
  EXPECT_FALSE(node.check.of(1, kGpu));
  EXPECT_TRUE(node.check.is_proven("alice"));
  node.snapshot.shares.clear();
  node.pass(kSecond, 0.0, 0);
  EXPECT_FALSE(node.check.is_proven("alice")) << "the next of its name has shown nothing yet";
}

TEST(ComputeCheck, AnAccountThatGoesBackIsNoProgress) {
  Node node;
  for (int i = 0; i < 3; ++i) {
    node.words().held_ns -= kSecond;
    node.pass(kSecond, 0.5, 0);
  }
  EXPECT_TRUE(node.named());
}

// NVML says 100 % of a share that held a fifth, a tenth, a sixteenth: short kernels with pauses.
TEST(ComputeCheck, ADriverThatCountsPausesAccusesNoProcess) {
  for (const std::uint64_t held : {200 * kMs, 100 * kMs, 60 * kMs}) {
    Node node;
    for (int i = 0; i < 30; ++i) {
      node.pass(kSecond, 1.0, held);
      ASSERT_FALSE(node.check.of(1, kGpu)) << held;
    }
    EXPECT_FALSE(node.check.is_proven("alice")) << held;
  }
}

// At worst the driver's mean is that of the last second. Bursts end in it at any time, and a client may look ten times
// a second.
TEST(ComputeCheck, ABurstReportedASecondLateAccusesNoProcess) {
  for (const std::uint64_t period : {kSecond / 10, kSecond / 3, kSecond}) {
    for (std::uint64_t on = kSecond / 4; on <= 4 * kSecond; on += kSecond / 4) {
      Node node;
      const std::uint64_t cycle = on + 3 * kSecond;
      for (std::uint64_t at = 0; at < 30 * kSecond; at += period) {
        const auto worked_until = [&](std::uint64_t t) { return t / cycle * on + std::min(t % cycle, on); };
        const std::uint64_t held = worked_until(at + period) - worked_until(at);
        const bool told = at % cycle < on + kSecond;  // for a second after its end as if it went on
        node.pass(period, told ? std::optional(1.0) : std::nullopt, held, held > 0 ? 10 : 0);
        ASSERT_FALSE(node.named()) << period << " " << on << " " << at;
      }
    }
  }
}

TEST(ComputeCheck, ManyLooksInAShortTimeAreOneStep) {
  Node node;
  for (int i = 0; i < 26; ++i) {
    node.pass(kSecond / 10, 1.0, 0);
    EXPECT_FALSE(node.named()) << i;
  }
  node.pass(kSecond / 10, 1.0, 0);
  EXPECT_TRUE(node.named()) << "after 2.7 s";
}

TEST(ComputeCheck, ANearlyIdleProcessIsNotChecked) {
  Node node;
  for (int i = 0; i < 10; ++i) node.pass(kSecond, 0.19, 0);
  EXPECT_FALSE(node.check.of(1, kGpu));
  EXPECT_FALSE(node.check.is_proven("alice")) << "nor taken for one whose account tells";
}

// One process is honest for the whole share, and another bypasses the limiter.
TEST(ComputeCheck, ABusySlotWithoutLaunchesIsReported) {
  Node node;
  for (int i = 0; i < 3; ++i) node.pass(kSecond, 0.5, 500 * kMs, 0);
  ASSERT_TRUE(node.named());
  EXPECT_EQ(node.check.of(1, kGpu)->text,
            "keeps 50 % on GPU 0 busy according to the driver, and has launched nothing according to its ledger");
}

TEST(ComputeCheck, ALongKernelAndCopiesAreNotSilence) {
  Node node;
  node.words().working = true;
  for (int i = 0; i < 10; ++i) node.pass(kSecond, 1.0, kSecond, 0);  // one kernel, charged while it runs
  EXPECT_FALSE(node.check.of(1, kGpu));
  for (int i = 0; i < 10; ++i) node.pass(kSecond, 1.0, 0, 0);  // one that is charged at its end
  EXPECT_FALSE(node.check.of(1, kGpu));
  for (int i = 0; i < 40; ++i) node.pass(kSecond, 1.0, 0, 0);
  EXPECT_TRUE(node.named()) << "a report of one long kernel is not believed for ever";
  Node copying;
  for (int i = 0; i < 10; ++i) {
    copying.words().copy_ns += kSecond / 2;
    copying.pass(kSecond, 0.6, 0, 0);
    EXPECT_FALSE(copying.check.of(1, kGpu));
  }
}

TEST(ComputeCheck, AnUnmeteredProcessIsNotChecked) {
  Node node;
  node.words().metered = false;
  for (int i = 0; i < 10; ++i) node.pass(kSecond, 1.0, 0, 0);
  node.words().metered = true;
  for (int i = 0; i < 10; ++i) {
    node.pass(kSecond, 1.0, 0, 0);  // what was sent before runs on
    EXPECT_FALSE(node.named()) << i;
  }
  for (int i = 0; i < 4; ++i) node.pass(kSecond, 1.0, 0, 0);
  EXPECT_TRUE(node.named());
}

TEST(ComputeCheck, AStoppedProcessIsNeitherAccusedNorCleared) {
  bool frozen = false;
  Node node({.frozen = [&](std::uint32_t pid) { return pid == 1 && frozen; }});
  node.pass(kSecond, 1.0, 0);
  node.pass(kSecond, 1.0, 0);
  frozen = true;
  for (int i = 0; i < 10; ++i) node.pass(kSecond, 1.0, 0, 0);
  EXPECT_FALSE(node.named());
  frozen = false;
  node.pass(kSecond, 1.0, 0);
  EXPECT_TRUE(node.named());
}

TEST(ComputeCheck, ALoneShareIsComparedWithTheGpusFigure) {
  Node node;
  node.snapshot.gpus[0].busy_ratio = 0.7;
  for (int i = 0; i < 3; ++i) node.pass(kSecond, {}, 0);
  EXPECT_TRUE(node.named());
  for (const std::string other : {"bob", ""}) {
    Node two;
    two.snapshot.gpus[0].busy_ratio = 0.7;
    snapshot::Process second = two.snapshot.processes[0];
    second.pid = 42, second.share = other;
    two.snapshot.processes.push_back(second);
    for (int i = 0; i < 10; ++i) two.pass(kSecond, {}, 0);
    EXPECT_FALSE(two.check.of(1, kGpu)) << "it may have been " << other;
  }
}

// Graphs with launches that block in a full queue, each charged 200 us and 20 ms long.
TEST(ComputeCheck, LaunchesBlockedByWorkInFlightAreNeverCertain) {
  Node node;
  const auto pass = [&] {
    node.words().share_launches += 40;
    node.pass(kSecond, 0.8, 40 * 200'000, 40);
  };
  node.words().working = true;
  node.pass(kSecond, 0.8, 800 * kMs, 40);  // its account showed it before
  ASSERT_TRUE(node.check.is_proven("alice"));
  for (int i = 0; i < 28; ++i) {
    pass();
    ASSERT_FALSE(node.check.of(1, kGpu)) << i;
  }
  for (int i = 0; i < 10; ++i) pass();
  ASSERT_TRUE(node.named()) << "told of in the end";
  EXPECT_FALSE(node.check.of(1, kGpu)->certain);
  EXPECT_EQ(node.check.of(1, kGpu)->text,
            "keeps 80 % on GPU 0 busy according to the driver, the whole share 1 % according to its ledger; "
            "unexplained: work in flight is not "
            "charged for so long");
}

// The same work, while another process of the share sets the account to 0.
TEST(ComputeCheck, AStaleAccountWhileLaunchesEndIsCertain) {
  Node node;
  node.words().working = true;
  node.pass(kSecond, 0.9, 900 * kMs, 900);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(node.named()) << i;
    node.words().share_launches += 900;
    node.pass(kSecond, 0.9, kMs, 900);
  }
  ASSERT_TRUE(node.named());
  EXPECT_TRUE(node.check.of(1, kGpu)->certain);
}

// A driver that counts a time slice for each process that waited for one.
TEST(ComputeCheck, SlicesCountedForManyProcessesAccuseNone) {
  Node node;
  for (std::uint32_t i = 0; i < 39; ++i) {
    snapshot::Process other = node.snapshot.processes[0];
    other.pid = 100 + i, other.share = "other";
    other.devices[0].busy_ratio = 1.0;
    node.snapshot.processes.push_back(other);
  }
  for (int i = 0; i < 10; ++i) {
    node.books[{1, kGpu}].held_ns += kSecond / 40;
    node.books[{1, kGpu}].launches += 10;
    for (auto& process : node.snapshot.processes) process.devices[0].busy_ratio = 1.0;
    node.look(kSecond);
    ASSERT_FALSE(node.check.of(1, kGpu)) << i;
  }
  for (int i = 0; i < 3; ++i) {
    node.books[{1, kGpu}].launches += 10;
    node.look(kSecond);
  }
  EXPECT_TRUE(node.named()) << "an account that stands still is no slice";
}

TEST(ComputeCheck, TheDriversFigureMayBeOthersWorkUnderMps) {
  Node node;
  node.snapshot.gpus[0].mps_clients = 2;
  node.snapshot.processes.push_back(node.snapshot.processes[0]);
  node.snapshot.processes[1].pid = 2, node.snapshot.processes[1].share = "other";
  for (auto& process : node.snapshot.processes) process.devices[0].mps = true, process.devices[0].busy_ratio = 0.5;
  for (int i = 0; i < 10; ++i) {
    node.words().held_ns += 20 * kMs;  // 2 % of the time, and nothing launched by this process
    node.look(kSecond);
    ASSERT_FALSE(node.check.of(1, kGpu)) << i;
  }
  for (int i = 0; i < 3; ++i) {
    node.words().launches += 10;
    node.look(kSecond);
  }
  EXPECT_TRUE(node.named()) << "but its share's account stands still";
}

TEST(ComputeCheck, AStallOfTheDaemonNeitherAccusesNorClears) {
  Node node;
  for (int i = 0; i < 10; ++i) {
    node.pass(20 * kSecond, 1.0, 500 * kMs);
    ASSERT_FALSE(node.check.of(1, kGpu)) << i;
  }
  node.pass(kSecond, 1.0, 0);
  node.pass(kSecond, 1.0, 0);
  node.pass(20 * kSecond, 1.0, 0);
  EXPECT_FALSE(node.named());
  node.pass(kSecond, 1.0, 0);
  EXPECT_TRUE(node.named());
}

TEST(ComputeCheck, AStalledLimiterIsNotAccused) {
  Node node;
  node.words().pulse = 7;
  for (int i = 0; i < 28; ++i) {
    node.pass(kSecond, 1.0, 0);  // launches go on
    ASSERT_FALSE(node.named()) << i;
  }
  for (int i = 0; i < 5; ++i) node.pass(kSecond, 1.0, 0);
  ASSERT_TRUE(node.named());
  EXPECT_FALSE(node.check.of(1, kGpu)->certain);
  for (int i = 0; i < 3; ++i) {
    *node.words().pulse += 1;
    node.pass(kSecond, 1.0, 0);
  }
  EXPECT_TRUE(node.check.of(1, kGpu)->certain);
}

TEST(ComputeCheck, AccountsMatchTheSlotOnTheHost) {
  JoinInput input;
  input.ledgers.resize(2);
  for (auto& ledger : input.ledgers) {
    ledger.share.devices.resize(1);
    ledger.share.devices[0].uuid = kGpu;
    ledger.share.devices[0].held_ns = 9;
    ledger.seats.resize(1);
    ledger.seats[0].work = {{.metered = true, .working = true, .launches = 3, .pulse = 5}};
  }
  input.ledgers[1].share.problem = "has data in reserved fields";
  // Left behind, and taken again.
  input.ledgers[0].seats.resize(2);
  input.ledgers[0].seats[1].work = {{.metered = true, .working = false, .launches = 4, .pulse = 6}};
  input.host_pids = {{41, 41}, {42}};
  const ComputeBooks books = compute_books(input);
  ASSERT_EQ(books.size(), 1u) << "a damaged page is no witness";
  const ComputeWords& words = books.at({41, kGpu});
  EXPECT_TRUE(words.metered && words.working);
  EXPECT_EQ(words.held_ns, 9u);
  EXPECT_EQ(words.launches, 7u) << "in any of its seats";
  EXPECT_EQ(words.share_launches, 7u);
  EXPECT_EQ(words.pulse, 11u);
}

}  // namespace
}  // namespace headgate::observe
