// Processes really killed (SIGKILL) before every single store of every operation, while a living sibling works on the
// same account; then reaped. Built from the ledger's own sources with step() switched on.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "guest/ledger/test_page.hpp"

namespace headgate::ledger {
namespace {

struct Shared {
  std::atomic<std::uint64_t> driver[64];  // what the driver holds for each worker; gone when it dies
  std::atomic<std::uint32_t> stop;
  std::atomic<std::uint32_t> working;    // the sibling is in its loop
  std::atomic<std::uint32_t> releasing;  // the victim has begun to release an orphan
  char last_step[64];                    // of the victim
};

// In the victim: dies before step number `fatal_step`, counted from arming.
long steps_taken = -1;
long fatal_step = -1;
Shared* shared = nullptr;

void arm(long fatal) {
  steps_taken = 0;
  fatal_step = fatal;
}

}  // namespace

void step(const char* name) {
  if (steps_taken < 0 || steps_taken++ != fatal_step) return;
  std::snprintf(shared->last_step, sizeof shared->last_step, "%s", name);
  ::kill(::getpid(), SIGKILL);
}

namespace {

constexpr std::uint64_t kLimit = 1000;

class Crash : public ::testing::Test {
 protected:
  void SetUp() override {
    page_ = make_shared_page(2);
    void* at = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared = static_cast<Shared*>(at);
  }
  void TearDown() override { ::munmap(shared, sizeof(Shared)); }

  // A sibling that reserves and gives back until told to stop, then leaves holding nothing.
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

  // Runs `operation` in a child killed at its step `fatal`. True if it was killed, false if it ended before that step.
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

  // Gives back what the dead had exported; nothing else may be left. A release that was killed may have given the bytes
  // back already, and left only the slot to be freed.
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
    constexpr int kRepeats = 10;  // each against another moment of the sibling
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      for (long fatal = 0;; ++fatal) {
        shared->stop = 0;
        shared->working = 0;
        shared->releasing = 0;
        const pid_t sibling = start_sibling();
        while (shared->working.load() == 0) ::sched_yield();
        const bool killed = run_victim(fatal, operation);
        reap_dead(*page_);
        shared->stop = 1;
        int status = -1;
        ::waitpid(sibling, &status, 0);
        ASSERT_EQ(status, 0);
        reap_dead(*page_);
        if (orphans) release_orphans();
        ASSERT_EQ(used_bytes(*page_, 0), 0u) << "killed before: " << shared->last_step << ", step " << fatal;
        ASSERT_EQ(used_bytes(*page_, 1), 0u) << "killed before: " << shared->last_step << ", step " << fatal;
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
};

// Leaves the account word to the sibling, so that the next operation has somebody to help.
void wait_for_neighbour(const UsagePage& page, SlotRef me) {
  while (__atomic_load_n(&page.memory[0].word.operation, __ATOMIC_ACQUIRE) >> kSequenceBits == me.slot) ::sched_yield();
}

TEST_F(Crash, KilledAnywhereInAReservationTheShareLosesNoByte) {
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

TEST_F(Crash, KilledAnywhereInAGiveBackTheShareLosesNoByte) {
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

TEST_F(Crash, KilledAnywhereInAClaimTheSeatComesBack) {
  kill_at_every_step(
      [](UsagePage& page, long fatal) {
        // The slot has had an owner that died holding bytes in the middle of an operation.
        const SlotRef before = seat(page, Identity{0, own_identity().pidns_inode, 1});
        reserve(page, 0, before, 50, kLimit);
        reap_dead(page);
        arm(fatal);
        seat(page, own_identity());
      },
      10);
}

TEST_F(Crash, KilledAnywhereInAnOrderlyLeaveNothingStays) {
  kill_at_every_step(
      [](UsagePage& page, long fatal) {
        const SlotRef me = seat(page, own_identity());
        reserve(page, 0, me, 100, kLimit);
        reserve(page, 1, me, 200, kLimit);
        arm(fatal);
        release(page, me);
      },
      4);
}

TEST_F(Crash, AReaperKilledAnywhereIsFinishedByTheNext) {
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

TEST_F(Crash, AnExporterKilledAnywhereLeavesWhatItHadExportedAndNotAByteElse) {
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

TEST_F(Crash, WhoeverIsKilledWhileReleasingAnOrphanTheNextReleasesTheRestOnce) {
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

// Every worker does everything: claim, many reservations and give-backs, sometimes leave; a killer ends one thousand.
void worker(UsagePage& page, int index, std::uint64_t seed, long fatal) {
  std::mt19937_64 random(seed);
  arm(fatal);
  SlotRef me = seat(page, own_identity());
  std::vector<std::uint64_t> mine;
  for (;;) {
    if (shared->stop.load(std::memory_order_relaxed) != 0) break;
    if (mine.empty() || random() % 2 == 0) {
      const std::uint64_t bytes = 1 + random() % 200;
      if (!reserve(page, 0, me, bytes, kLimit).ok) continue;
      mine.push_back(bytes);
      shared->driver[index].fetch_add(bytes);
    } else {
      shared->driver[index].fetch_sub(mine.back());
      give_back(page, 0, me, mine.back());
      mine.pop_back();
    }
    if (random() % 64 == 0) {
      for (const std::uint64_t bytes : mine) shared->driver[index].fetch_sub(bytes);
      mine.clear();
      release(page, me);
      me = seat(page, own_identity());
    }
    if (random() % 16 == 0) reap_dead(page);
  }
  release(page, me);
  ::_exit(0);
}

TEST_F(Crash, AThousandKillsAmongEightProcessesLeaveNoByteNoSlotAndNoLock) {
  constexpr int kWorkers = 8;
  constexpr int kKills = 1000;
  std::mt19937_64 random(20'251);
  std::array<pid_t, kWorkers> pids{};
  std::array<bool, kWorkers> marked{};
  const auto start = [&](int index) {
    marked[index] = random() % 2 == 0;
    const long fatal = marked[index] ? static_cast<long>(random() % 2000) : -1;
    const std::uint64_t seed = random();
    shared->driver[index] = 0;
    pids[index] = ::fork();
    if (pids[index] == 0) worker(*page_, index, seed, fatal);
  };
  for (int i = 0; i < kWorkers; ++i) start(i);
  int at_marks = 0;
  for (int kills = 0; kills < kKills; ++kills) {
    const int index = static_cast<int>(random() % kWorkers);
    if (!marked[index]) {
      ::usleep(static_cast<useconds_t>(random() % 2000));  // a random instant is what is wanted here
      ::kill(pids[index], SIGKILL);
    }
    at_marks += marked[index];
    int status = 0;
    ASSERT_EQ(::waitpid(pids[index], &status, 0), pids[index]);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ASSERT_LE(used_bytes(*page_, 0), kLimit);
    start(index);
  }
  std::printf("  kills at marked steps %d, at random instants %d\n", at_marks, kKills - at_marks);
  shared->stop = 1;
  for (const pid_t pid : pids) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  }
  reap_dead(*page_);
  EXPECT_EQ(used_bytes(*page_, 0), 0u);
  EXPECT_EQ(live_slots(*page_), 0u);
  for (std::uint32_t i = 0; i < kMaxSlots; ++i) ASSERT_EQ(view(*page_, i).kind, SlotKind::free) << i;
  // No lock: the whole limit can be had at once.
  const SlotRef me = seat(*page_, own_identity());
  EXPECT_TRUE(reserve(*page_, 0, me, kLimit, kLimit).ok);
  EXPECT_EQ(give_back(*page_, 0, me, kLimit), kLimit);
}

}  // namespace
}  // namespace headgate::ledger
