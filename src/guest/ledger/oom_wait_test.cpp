#include "guest/ledger/oom_wait.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>

#include "guest/ledger/test_page.hpp"

namespace headgate::ledger {
namespace {

TEST(OomWait, AReleaseMakesNoCallIfNothingWaits) {
  const SharedPage page = make_shared_page();
  const std::uint32_t before = page->releases;
  tell_released(*page);
  EXPECT_EQ(page->releases, before);
}

TEST(OomWait, MemoryFreedByAnotherThreadWakesTheWaiterAtOnce) {
  const SharedPage page = make_shared_page();
  const SlotRef slot = seat(*page, own_identity());
  ASSERT_TRUE(reserve(*page, 0, slot, 100, 100).ok);
  std::atomic<int> rounds = 0;
  std::atomic<bool> has = false;
  const std::jthread waiter([&] {
    while (true) {
      const std::uint32_t seen = expect_release(*page);
      if (reserve(*page, 0, slot, 40, 100).ok) break;
      ++rounds;
      wait_for_release(*page, seen);
    }
    has = true;
  });
  while (rounds == 0) std::this_thread::yield();
  // Without the wake each round takes kLookAgainNs; the word's value shows that the wake came.
  EXPECT_EQ(give_back(*page, 0, slot, 40), 40u);
  while (!has) std::this_thread::yield();
  EXPECT_EQ(used_bytes(*page, 0), 100u);
}

TEST(OomWait, AReleaseWakesWaiters) {
  const SharedPage page = make_shared_page();
  const SlotRef slot = seat(*page, own_identity());
  ASSERT_TRUE(reserve(*page, 0, slot, 100, 100).ok);
  for (const auto& less : {give_back, unreserve}) {
    const std::uint32_t seen = expect_release(*page);
    EXPECT_EQ(less(*page, 0, slot, 40), 40u);
    EXPECT_NE(page->releases, seen);
  }
}

TEST(OomWait, AReleaseBetweenCheckAndSleepIsNotMissed) {
  const SharedPage page = make_shared_page();
  const std::uint32_t seen = expect_release(*page);
  tell_released(*page);
  const auto began = std::chrono::steady_clock::now();
  wait_for_release(*page, seen);
  EXPECT_NE(page->releases, seen);
  EXPECT_EQ(page->releases & 1, 0u) << "told once, not at each give-back";
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
}

TEST(OomWait, AKilledWaiterBlocksNoOther) {
  const SharedPage page = make_shared_page();  // shared with children
  const pid_t child = ::fork();
  if (child == 0) {
    (void)expect_release(*page);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  const std::uint32_t left = page->releases;
  EXPECT_EQ(left & 1, 1u);
  EXPECT_EQ(expect_release(*page), left);
  tell_released(*page);
  EXPECT_EQ(page->releases, left + 1);
}

TEST(OomWait, ADenialReachesTheWaiterWithItsFigures) {
  const SharedPage page = make_shared_page();
  auto policy = std::make_unique<PolicyPage>();
  const std::uint32_t seen = expect_release(*page);
  deny_waiters(*policy, *page);
  EXPECT_EQ(policy->oom_denials, 1u);
  EXPECT_NE(page->releases, seen);
  const SlotRef slot = seat(*page, own_identity());
  note_want(*page, 3, slot, 77, true);
  const Want want = last_want(*page, 3);
  EXPECT_EQ(want.epoch, 1u);
  EXPECT_EQ(want.bytes, 77u);
  EXPECT_EQ(want.pid, own_identity().pid);
  EXPECT_TRUE(want.of_card);
  EXPECT_EQ(last_want(*page, kMaxAccounts).bytes, 0u);
  const std::int64_t now_ns = page->memory[3].wanted_ns.load();
  EXPECT_TRUE(wanted_lately(*page, 3, now_ns + kTellWantEachNs)) << "the want is renewed each second";
  EXPECT_FALSE(wanted_lately(*page, 3, now_ns + kWantLastsNs)) << "the want was not renewed";
  EXPECT_FALSE(wanted_lately(*page, 3, now_ns - 1)) << "a lie";
  EXPECT_FALSE(wanted_lately(*page, 2, now_ns)) << "no process wants memory";
  set_waiting(*policy, true, ~0u);
  EXPECT_EQ(policy->oom_wait_ms, kLongestOomWaitMs);
  EXPECT_EQ(policy->ask_first, 1u);
}

}  // namespace
}  // namespace headgate::ledger
