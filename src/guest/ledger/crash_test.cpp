// Kills processes (SIGKILL) before every store of every operation, while a living sibling works on the same account;
// then reaps. Built from the ledger's own sources with step() enabled.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "guest/ledger/draining.hpp"
#include "guest/ledger/test_page.hpp"
#include "support/kill_storm.hpp"

namespace headgate::ledger {
namespace {

constexpr std::uint64_t kLimit = kStormLimitBytes;

class Crash : public ::testing::Test {
 protected:
  void SetUp() override {
    page_ = make_shared_page(2);
    prepare_killing();
  }

  // Starts a sibling that reserves and gives back until told to stop, then leaves holding nothing.
  pid_t start_sibling() {
    const pid_t child = ::fork();
    if (child != 0) return child;
    const SlotRef me = seat(*page_, own_identity());
    while (shared->stop.load() == 0) {
      if (reserve(*page_, 0, me, 7, kLimit).ok) give_back(*page_, 0, me, 7);
      shared->working = 1;
    }
    release(*page_, me);
    ::_exit(0);
  }

  // Runs `operation` in a child that is killed at step `fatal`. Returns false if the child ended before that.
  bool run_victim(long fatal, const std::function<void(UsagePage&, long)>& operation) {
    const pid_t child = ::fork();
    if (child == 0) {
      operation(*page_, fatal);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }

  // Gives back what dead processes had exported; nothing else may be left. A release that was killed may already have
  // given the bytes back, leaving only the slot to free.
  void release_orphans() {
    const std::uint64_t used = used_bytes(*page_, 0);
    const bool released = shared->releasing.load() != 0 && used == 0;
    ASSERT_TRUE(released || used == orphaned_bytes(*page_, 0)) << used << ", killed before: " << shared->last_step;
    for (std::uint32_t i = 0; i < kMaxSlots; ++i)
      if (const SlotView seat = view(*page_, i); seat.kind == SlotKind::orphan)
        release_orphan(*page_, {i, seat.generation});
  }

  void kill_at_every_step(const std::function<void(UsagePage&, long)>& operation, std::size_t least_steps,
                          bool orphans = false) {
    std::map<std::string, int> histogram;
    // Repeats, so that each kill meets the sibling at other moments; otherwise it might always do some steps first.
    constexpr int kRepeats = 10, kMaxRepeats = 100;
    for (int repeat = 0; repeat < kRepeats || (histogram.size() < least_steps && repeat < kMaxRepeats); ++repeat) {
      for (long fatal = 0;; ++fatal) {
        shared->stop = 0;
        shared->working = 0;
        shared->releasing = 0;
        const pid_t sibling = start_sibling();
        while (shared->working.load() == 0) ::sched_yield();
        const bool killed = run_victim(fatal, operation);
        reap_dead(*page_, remains_);
        shared->stop = 1;
        int status = -1;
        ::waitpid(sibling, &status, 0);
        ASSERT_EQ(status, 0);
        reap_dead(*page_, remains_);
        if (orphans) release_orphans();
        ASSERT_EQ(used_bytes(*page_, 0), 0u) << "killed before: " << shared->last_step << ", step " << fatal;
        for (const std::uint32_t account : {1u, host_account(0), host_account(1)})
          ASSERT_EQ(used_bytes(*page_, account), 0u) << "killed before: " << shared->last_step << ", step " << fatal;
        for (std::uint32_t i = 0; i < kMaxSlots; ++i) ASSERT_EQ(view(*page_, i).kind, SlotKind::free) << i;
        if (!killed) break;
        ++histogram[shared->last_step];
      }
    }
    int kills = 0;
    for (const auto& [name, count] : histogram) {
      std::printf("  %-20s %4d\n", name.c_str(), count);
      kills += count;
    }
    std::printf("  %-20s %4d\n", "kills", kills);
    EXPECT_GE(histogram.size(), least_steps);
  }

  SharedPage page_;
  Remains remains_ = Remains::none;
};

// Waits until the account word is the sibling's, so that the next operation has to help.
void wait_for_neighbour(const UsagePage& page, SlotRef me) {
  while (__atomic_load_n(&page.memory[0].word.operation, __ATOMIC_ACQUIRE) >> kSequenceBits == me.slot) ::sched_yield();
}

TEST_F(Crash, AKillInAReservationLosesNoByte) {
  kill_at_every_step(
      [](UsagePage& page, long fatal) {
        const SlotRef me = seat(page, own_identity());
        reserve(page, 0, me, 100, kLimit);
        wait_for_neighbour(page, me);
        arm(fatal);
        reserve(page, 0, me, 30, kLimit);
      },
      6);
}

TEST_F(Crash, AKillInAReleaseLosesNoByte) {
  kill_at_every_step(
      [](UsagePage& page, long fatal) {
        const SlotRef me = seat(page, own_identity());
        reserve(page, 0, me, 100, kLimit);
        wait_for_neighbour(page, me);
        arm(fatal);
        give_back(page, 0, me, 60);
      },
      6);
}

TEST_F(Crash, AKillBetweenCardAndHostBudgetLosesNoByte) {
  kill_at_every_step(
      [](UsagePage& page, long fatal) {
        const SlotRef me = seat(page, own_identity());
        reserve(page, 0, me, 100, kLimit);
        reserve(page, host_account(0), me, 40, kLimit);
        arm(fatal);
        reserve(page, host_account(0), me, 30, kLimit);
        give_back(page, 0, me, 60);
      },
      6);
}

TEST_F(Crash, AKillInAClaimFreesTheSlot) {
  kill_at_every_step(
      [](UsagePage& page, long fatal) {
        // The slot had an owner that died in the middle of an operation, holding bytes.
        const SlotRef before = seat(page, Identity{0, own_identity().pidns_inode, 1});
        reserve(page, 0, before, 50, kLimit);
        reap_dead(page);
        arm(fatal);
        seat(page, own_identity());
      },
      10);
}

TEST_F(Crash, AKillInAnOrderlyLeaveLeavesNothing) {
  kill_at_every_step(
      [](UsagePage& page, long fatal) {
        const SlotRef me = seat(page, own_identity());
        reserve(page, 0, me, 100, kLimit);
        reserve(page, 1, me, 200, kLimit);
        reserve(page, host_account(1), me, 300, kLimit);
        arm(fatal);
        release(page, me);
      },
      4);
}

TEST_F(Crash, AKilledReapersWorkIsFinishedByTheNext) {
  kill_at_every_step(
      [](UsagePage& page, long fatal) {
        const SlotRef gone = seat(page, Identity{0, own_identity().pidns_inode, 1});
        reserve(page, 0, gone, 100, kLimit);
        reserve(page, 1, gone, 200, kLimit);
        arm(fatal);
        reap_dead(page);
      },
      4);
}

TEST_F(Crash, AKilledExporterLeavesExactlyItsExports) {
  kill_at_every_step(
      [](UsagePage& page, long fatal) {
        const SlotRef me = seat(page, own_identity());
        reserve(page, 0, me, 100, kLimit);
        arm(fatal);
        add_exported(page, 0, me, 90);
        give_back(page, 0, me, 20);
        sub_exported(page, 0, me, 30);
        reserve(page, 0, me, 50, kLimit);
      },
      9, true);
}

TEST_F(Crash, AKillWhileReleasingAnOrphanIsFinishedOnce) {
  kill_at_every_step(
      [](UsagePage& page, long fatal) {
        const SlotRef gone = seat(page, Identity{0, own_identity().pidns_inode, 1});
        reserve(page, 0, gone, 100, kLimit);
        add_exported(page, 0, gone, 60);
        wait_for_neighbour(page, gone);
        arm(fatal);
        reap_dead(page);
        shared->releasing = 1;
        release_orphan(page, gone);
      },
      6, true);
}

TEST_F(Crash, AKillWhileExportsDrainLeavesExactlyThem) {
  kill_at_every_step(
      [](UsagePage& page, long fatal) {
        static Draining seen;
        const SlotRef me = seat(page, own_identity());
        reserve(page, 0, me, 100, kLimit);
        add_exported(page, 0, me, 60);
        arm(fatal);
        add_draining(page, 0, me, 40);
        see_draining(page, 0, seen);
        settle_draining(page, 0, me, seen, 30);
        reserve(page, 0, me, 50, kLimit);
      },
      8, true);
}

TEST_F(Crash, AKilledProcessDrainsExactlyWhatItHeld) {
  remains_ = Remains::draining;
  kill_at_every_step(
      [](UsagePage& page, long fatal) {
        const SlotRef me = seat(page, own_identity());
        reserve(page, 0, me, 100, kLimit);
        add_exported(page, 0, me, 60);
        reserve(page, host_account(0), me, 40, kLimit);
        arm(fatal);
        reserve(page, 0, me, 30, kLimit);
        give_back(page, 0, me, 90);
      },
      6, true);
}

TEST_F(Crash, AKillWhileADeadProcessDrainsIsFinishedOnce) {
  remains_ = Remains::draining;
  kill_at_every_step(
      [](UsagePage& page, long fatal) {
        static Draining seen;
        const SlotRef gone = seat(page, Identity{0, own_identity().pidns_inode, 10});
        const SlotRef late = seat(page, Identity{0, own_identity().pidns_inode, 20});
        reserve(page, 0, gone, 100, kLimit);
        reserve(page, 0, late, 20, kLimit);
        add_exported(page, 0, gone, 60);
        page.slots[gone.slot].devices[0].residual_bytes.store(7);
        arm(fatal);
        reap_dead(page, Remains::draining);
        see_draining(page, 0, seen);
        settle_draining(page, 0, {}, seen, 50);
        shared->releasing = 1;
        release_orphan(page, gone);
        give_up_teardowns(page, INT64_MAX);
      },
      7, true);
}

TEST_F(Crash, AThousandKillsLeaveNoByteNoSlotAndNoLock) {
  const KillStorm storm = kill_storm(*page_, 1000, 20'251);
  std::printf("  kills at marked steps %d, at random instants %d\n", storm.at_marks, storm.kills - storm.at_marks);
  EXPECT_EQ(storm.kills, 1000);
  EXPECT_LE(storm.most_used_bytes, kLimit);
  EXPECT_EQ(storm.bytes_left, 0u);
  EXPECT_EQ(storm.slots_left, 0u);
  EXPECT_TRUE(storm.whole_limit_usable);
}

}  // namespace
}  // namespace headgate::ledger
