#include "guest/ledger/account.hpp"
#include "guest/ledger/draining.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "guest/ledger/test_page.hpp"
#include "support/contention.hpp"

namespace headgate::ledger {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;

TEST(Account, TheLastByteIsGrantedAndNotOneMore) {
  const SharedPage page = make_shared_page();
  const SlotRef me = seat(*page, made_up(10));
  EXPECT_TRUE(reserve(*page, 0, me, kGiB - 1, kGiB).ok);
  EXPECT_TRUE(reserve(*page, 0, me, 1, kGiB).ok);
  const Reservation refused = reserve(*page, 0, me, 1, kGiB);
  EXPECT_FALSE(refused.ok);
  EXPECT_EQ(refused.used_bytes, kGiB);
  EXPECT_EQ(used_bytes(*page, 0), kGiB);
  note_peak(*page, 0);
  note_in_use(*page, 0, 7);
  note_in_use(*page, 0, ~0ull);  // no share has that much
  EXPECT_EQ(give_back(*page, 0, me, kGiB), kGiB);
  EXPECT_EQ(used_bytes(*page, 0), 0u);
  EXPECT_EQ(peak_bytes(*page, 0), kGiB);
  EXPECT_EQ(peak_in_use_bytes(*page, 0), kGiB + 7);
}

TEST(Account, AnAllocationThatTheDriverRefusedIsNoPeak) {
  const SharedPage page = make_shared_page();
  const SlotRef me = seat(*page, made_up(10)), other = seat(*page, made_up(11));
  ASSERT_TRUE(reserve(*page, 0, me, 100, kGiB).ok);
  note_peak(*page, 0);
  ASSERT_TRUE(reserve(*page, 0, me, kGiB - 100, kGiB).ok);
  EXPECT_EQ(unreserve(*page, 0, me, kGiB - 100), kGiB - 100);
  EXPECT_EQ(used_bytes(*page, 0), 100u);
  EXPECT_EQ(peak_bytes(*page, 0), 100u);
  // A later operation of either process must not count it either.
  ASSERT_TRUE(reserve(*page, 0, other, 50, kGiB).ok);
  note_peak(*page, 0);
  EXPECT_EQ(give_back(*page, 0, me, 100), 100u);
  EXPECT_EQ(peak_bytes(*page, 0), 150u);
}

TEST(Account, APeakCountsEvenIfFreedBeforeItWasNoted) {
  const SharedPage page = make_shared_page();
  const SlotRef me = seat(*page, made_up(10)), other = seat(*page, made_up(11));
  ASSERT_TRUE(reserve(*page, 0, me, 100, kGiB).ok);
  ASSERT_TRUE(reserve(*page, 0, other, 50, kGiB).ok);
  give_back(*page, 0, other, 50);
  note_peak(*page, 0);
  EXPECT_EQ(peak_bytes(*page, 0), 150u);
}

TEST(Account, AHugeRequestIsRefusedWithoutOverflow) {
  const SharedPage page = make_shared_page();
  const SlotRef me = seat(*page, made_up(10));
  ASSERT_TRUE(reserve(*page, 0, me, 100, kGiB).ok);
  for (const std::uint64_t bytes : {~0ull, ~0ull - 50, 1ull << 63, (1ull << 63) - 1})
    EXPECT_FALSE(reserve(*page, 0, me, bytes, kGiB).ok) << bytes;
  EXPECT_FALSE(reserve(*page, 0, me, ~0ull, kNoMemoryLimit).ok);
  EXPECT_EQ(used_bytes(*page, 0), 100u);
}

TEST(Account, ASlotReleasesAtMostWhatItHolds) {
  const SharedPage page = make_shared_page();
  const SlotRef me = seat(*page, made_up(10));
  const SlotRef other = seat(*page, made_up(11));
  ASSERT_TRUE(reserve(*page, 0, me, 100, kGiB).ok);
  ASSERT_TRUE(reserve(*page, 0, other, 50, kGiB).ok);
  EXPECT_EQ(give_back(*page, 0, me, 120), 100u);
  EXPECT_EQ(give_back(*page, 0, me, 1), 0u);
  EXPECT_EQ(used_bytes(*page, 0), 50u);
}

TEST(Account, ALeftSlotsHandleIsInvalid) {
  const SharedPage page = make_shared_page();
  const SlotRef gone = seat(*page, made_up(10));
  release(*page, gone);
  const SlotRef next = seat(*page, made_up(11));
  ASSERT_EQ(next.slot, gone.slot);
  EXPECT_FALSE(reserve(*page, 0, gone, 1, kGiB).ok);
  EXPECT_FALSE(charge(*page, 0, gone, 1));
  ASSERT_TRUE(reserve(*page, 0, next, 5, kGiB).ok);
  EXPECT_EQ(give_back(*page, 0, gone, 5), 0u);
  release(*page, gone);
  EXPECT_EQ(held_bytes(*page, 0, next.slot), 5u);
}

TEST(Account, ExistingMemoryIsChargedPastTheLimit) {
  const SharedPage page = make_shared_page();
  const SlotRef me = seat(*page, made_up(10));
  ASSERT_TRUE(charge(*page, 0, me, 2 * kGiB));
  EXPECT_FALSE(reserve(*page, 0, me, 1, kGiB).ok);
  EXPECT_EQ(give_back(*page, 0, me, 2 * kGiB), 2 * kGiB);
  EXPECT_TRUE(reserve(*page, 0, me, 1, kGiB).ok);
}

TEST(Account, ARefusalIsRecordedForWhy) {
  const SharedPage page = make_shared_page();
  const SlotRef me = seat(*page, made_up(4711));
  note_refusal(*page, 0, me, {.asked_bytes = 3 * kGiB, .used_bytes = kGiB, .limit_bytes = 2 * kGiB});
  const MemoryAccount& account = page->memory[0];
  EXPECT_EQ(account.refusals, 1u);
  EXPECT_EQ(account.last_refusal_bytes, 3 * kGiB);
  EXPECT_EQ(account.last_refusal_used, kGiB);
  EXPECT_EQ(account.last_refusal_limit, 2 * kGiB);
  EXPECT_EQ(account.last_refusal_pid, 4711u);
  EXPECT_NE(account.last_refusal_ns, 0u);
}

TEST(Account, FreedMemoryDrainsUntilTheDriverHasReleasedIt) {
  const SharedPage page = make_shared_page(2);
  const SlotRef dead = seat(*page, made_up(10)), me = seat(*page, made_up(11)), other = seat(*page, made_up(12));
  for (const SlotRef each : {dead, me, other}) {
    ASSERT_TRUE(reserve(*page, 0, each, 100, kGiB).ok);
    add_exported(*page, 0, each, 60);
  }
  release(*page, dead);
  add_draining(*page, 0, me, 40);
  add_draining(*page, 0, other, 1000);
  EXPECT_EQ(draining_bytes(*page, 0), 60u + 40 + 60) << "never more than was exported";
  auto seen = std::make_unique<Draining>();
  see_draining(*page, 0, *seen);
  EXPECT_EQ(settle_draining(*page, 0, me, *seen, 0), 0u);
  EXPECT_EQ(settle_draining(*page, 0, me, *seen, 50), 40u) << "the orphan is larger: it waits, and ours is next";
  EXPECT_EQ(settle_draining(*page, 0, me, *seen, 50), 0u) << "of the same conclusion, once";
  EXPECT_EQ(settle_draining(*page, 0, other, *seen, 50), 10u) << "the rest is the other's";
  EXPECT_EQ(used_bytes(*page, 0), 60u + 60 + 90);
  see_draining(*page, 0, *seen);
  EXPECT_EQ(seen->bytes, 60u + 50);
  EXPECT_EQ(settle_draining(*page, 0, other, *seen, 70), 10u);
  EXPECT_EQ(settle_draining(*page, 0, me, *seen, 70), 0u) << "the orphan is not given back twice";
  EXPECT_EQ(used_bytes(*page, 0), 60u + 80);
  EXPECT_EQ(draining_bytes(*page, 0), 40u);
}

TEST(Account, AnOrphanOnTwoDevicesIsReleasedOneByOne) {
  const SharedPage page = make_shared_page(2);
  const SlotRef dead = seat(*page, made_up(10)), me = seat(*page, made_up(11));
  for (const std::uint32_t device : {0u, 1u}) {
    ASSERT_TRUE(reserve(*page, device, dead, 100, kGiB).ok);
    add_exported(*page, device, dead, 100);
  }
  release(*page, dead);
  auto seen = std::make_unique<Draining>();
  see_draining(*page, 0, *seen);
  settle_draining(*page, 0, me, *seen, 100);
  EXPECT_EQ(used_bytes(*page, 0), 0u);
  EXPECT_EQ(used_bytes(*page, 1), 100u) << "the other device was not looked at";
  EXPECT_EQ(orphaned_bytes(*page, 0), 0u);
  EXPECT_EQ(orphaned_bytes(*page, 1), 100u);
  EXPECT_EQ(view(*page, dead.slot).kind, SlotKind::orphan);
  settle_draining(*page, 0, me, *seen, 100);
  EXPECT_EQ(used_bytes(*page, 0), 0u);
  see_draining(*page, 1, *seen);
  settle_draining(*page, 1, me, *seen, 100);
  EXPECT_EQ(used_bytes(*page, 1), 0u);
  EXPECT_EQ(view(*page, dead.slot).kind, SlotKind::free);
}

TEST(Account, AKilledProcessIsChargedUntilTheDriverHasTornItDown) {
  const SharedPage page = make_shared_page();
  const SlotRef dead = seat(*page, {0, own_identity().pidns_inode, 1}), me = seat(*page, made_up(11));
  ASSERT_TRUE(reserve(*page, 0, dead, 100, kGiB).ok);
  ASSERT_TRUE(reserve(*page, host_account(0), dead, 30, kGiB).ok);
  add_exported(*page, 0, dead, 40);
  page->slots[dead.slot].devices[0].residual_bytes.store(7);
  EXPECT_EQ(reap_dead(*page, Remains::draining), 1u);
  EXPECT_EQ(used_bytes(*page, 0), 100u);
  EXPECT_EQ(used_bytes(*page, host_account(0)), 0u) << "no card shows host memory";
  EXPECT_EQ(draining_bytes(*page, 0), 107u);
  EXPECT_EQ(torn_on(*page, 0).residual, 7u);
  auto seen = std::make_unique<Draining>();
  see_draining(*page, 0, *seen);
  settle_draining(*page, 0, me, *seen, 66);
  EXPECT_EQ(used_bytes(*page, 0), 100u) << "not all that goes with it is gone";
  settle_draining(*page, 0, me, *seen, 67);
  settle_draining(*page, 0, me, *seen, 67);
  EXPECT_EQ(used_bytes(*page, 0), 40u) << "others may have what it had exported";
  EXPECT_EQ(torn_on(*page, 0).residual, 0u);
  see_draining(*page, 0, *seen);
  settle_draining(*page, 0, me, *seen, 40);
  EXPECT_EQ(used_bytes(*page, 0), 0u);
  EXPECT_EQ(view(*page, dead.slot).kind, SlotKind::free);
  EXPECT_EQ(page->teardowns_given_up.load(), 0u);
}

TEST(Account, AKilledProcessIsReleasedAfter10sWithoutAReader) {
  const SharedPage page = make_shared_page();
  const SlotRef dead = seat(*page, {0, own_identity().pidns_inode, 1});
  ASSERT_TRUE(reserve(*page, 0, dead, 100, kGiB).ok);
  add_exported(*page, 0, dead, 40);
  reap_dead(*page, Remains::draining);
  const std::int64_t died_ns = page->slots[dead.slot].died_ns.load();
  EXPECT_FALSE(give_up_teardowns(*page, died_ns + kTeardownNs - 1));
  EXPECT_EQ(used_bytes(*page, 0), 100u);
  EXPECT_TRUE(give_up_teardowns(*page, died_ns + kTeardownNs));
  EXPECT_EQ(used_bytes(*page, 0), 40u) << "importers may live for ever";
  EXPECT_EQ(page->teardowns_given_up.load(), 60u);
  EXPECT_FALSE(give_up_teardowns(*page, died_ns + kTeardownNs));
}

// This happens if the pages lie in a directory that survives a reboot, because the clock then starts again.
TEST(Account, ADeathInTheFutureCountsAsLongAgo) {
  const SharedPage page = make_shared_page();
  const SlotRef dead = seat(*page, {0, own_identity().pidns_inode, 1});
  ASSERT_TRUE(reserve(*page, 0, dead, 100, kGiB).ok);
  reap_dead(*page, Remains::draining);
  EXPECT_TRUE(give_up_teardowns(*page, 0));
  EXPECT_EQ(used_bytes(*page, 0), 0u);
}

TEST(Account, ExportedBytesOutliveTheirProcess) {
  const SharedPage page = make_shared_page(2);
  const SlotRef me = seat(*page, made_up(10));
  ASSERT_TRUE(reserve(*page, 0, me, 100, kGiB).ok);
  ASSERT_TRUE(reserve(*page, 1, me, 40, kGiB).ok);
  add_exported(*page, 0, me, 70);
  sub_exported(*page, 0, me, 10);
  release(*page, me);
  EXPECT_EQ(used_bytes(*page, 0), 60u);
  EXPECT_EQ(orphaned_bytes(*page, 0), 60u);
  EXPECT_EQ(used_bytes(*page, 1), 0u);
  EXPECT_EQ(view(*page, me.slot).kind, SlotKind::orphan);
  reap(*page, me.slot);
  EXPECT_EQ(used_bytes(*page, 0), 60u) << "an orphan is not reaped twice";
  release_orphan(*page, me);
  release_orphan(*page, me);
  EXPECT_EQ(used_bytes(*page, 0), 0u);
  EXPECT_EQ(orphaned_bytes(*page, 0), 0u);
  EXPECT_EQ(view(*page, me.slot).kind, SlotKind::free);
}

// Both racers ask for the last gigabyte at the same moment, each round.
TEST(Account, OneOfTwoThreadsGetsTheLastGigabyteEachRound) {
  const SharedPage page = make_shared_page();
  const SlotRef seats[2] = {seat(*page, made_up(10)), seat(*page, made_up(11))};
  constexpr int kRounds = 20'000;
  std::atomic<int> wins{0};
  int wrong = 0;
  std::barrier start(2);
  std::barrier end(2, [&]() noexcept { wrong += wins.exchange(0) != 1; });
  // Threads of one process share a lock per device, unlike processes. Both use the same account, each with its own
  // seat.
  auto racer = [&](int i) {
    for (int round = 0; round < kRounds; ++round) {
      start.arrive_and_wait();
      const bool won = reserve(*page, 0, seats[i], kGiB, kGiB).ok;
      wins += won;
      end.arrive_and_wait();
      if (won) give_back(*page, 0, seats[i], kGiB);
    }
  };
  std::thread other(racer, 1);
  racer(0);
  other.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(used_bytes(*page, 0), 0u);
}

// Adapts a seat for contention.hpp.
struct Seat {
  UsagePage& page;
  SlotRef me;
  std::uint64_t limit;

  [[nodiscard]] Answer take(std::uint64_t bytes) const {
    const Reservation got = reserve(page, 0, me, bytes, limit);
    return {got.ok, true, got.used_bytes};
  }
  void give(std::uint64_t bytes) const { give_back(page, 0, me, bytes); }
};

// The same between processes: only the account synchronizes them.
TEST(Account, OneOfTwoProcessesGetsTheLastGigabyteEachRound) {
  const SharedPage page = make_shared_page();
  const auto duel = make_shared_over_fork<Duel>();
  constexpr std::uint32_t kRounds = 3'000;
  const auto racer = [&](std::uint32_t pid) {
    const Seat seat_of_pid{*page, seat(*page, made_up(pid)), kGiB};
    return fight(seat_of_pid, *duel, kRounds, kGiB);
  };
  const pid_t child = ::fork();
  if (child == 0) {
    racer(11);
    ::_exit(0);
  }
  const DuelOutcome outcome = racer(10);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(outcome.both_won, 0u);
  EXPECT_EQ(outcome.both_lost, 0u);
  EXPECT_EQ(duel->wins, kRounds);
  EXPECT_EQ(used_bytes(*page, 0), 0u);
}

TEST(Account, ProcessesAndThreadsNeverExceedTheLimitByAByte) {
  const SharedPage page = make_shared_page();
  const auto crowd = make_shared_over_fork<Contention>();
  constexpr int kProcesses = 16;
  constexpr int kThreads = 8;
  constexpr int kRounds = 1'000'000 / (kProcesses * kThreads) + 1;
  constexpr std::uint64_t kLimit = 512ull << 20;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    if (child == 0) {
      const Seat mine{*page, seat(*page, made_up(static_cast<std::uint32_t>(100 + p))), kLimit};
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] { join_contention(mine, *crowd, p * 100 + t, kRounds, kLimit); });
      for (auto& thread : threads) thread.join();
      ::_exit(held_bytes(*page, 0, mine.me.slot) == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_GE(crowd->rounds, 1'000'000u);
  EXPECT_LE(crowd->most, kLimit);
  EXPECT_EQ(crowd->wrongly_refused, 0u);
  EXPECT_EQ(used_bytes(*page, 0), 0u);
  EXPECT_EQ(sum_of_held(*page), 0u);
  // The limit is usable: the peak came within a thousandth of it.
  EXPECT_LE(peak_bytes(*page, 0), kLimit);
  EXPECT_GE(peak_bytes(*page, 0) * 1000, kLimit * 999);
}

}  // namespace
}  // namespace headgate::ledger
