#include "guest/ledger/account.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "guest/ledger/packing.hpp"
#include "guest/ledger/slot.hpp"
#include "guest/ledger/test_page.hpp"

namespace headgate::ledger {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;

bool balances(const UsagePage& page) {
  const Balance seen = balance_of(page, 0);
  return seen.certain && seen.used_bytes == seen.slots_bytes;
}

TEST(Balance, RefusalDeathAndOrphanLeaveTheAccountBalanced) {
  const SharedPage page = make_shared_page();
  const SlotRef me = seat(*page, made_up(10)), other = seat(*page, made_up(11));
  ASSERT_TRUE(reserve(*page, 0, me, 100, kGiB).ok);
  ASSERT_FALSE(reserve(*page, 0, other, kGiB, kGiB).ok);
  EXPECT_TRUE(balances(*page)) << "after a refusal";
  add_exported(*page, 0, me, 60);
  ASSERT_TRUE(mark_dead(*page, me));
  EXPECT_FALSE(balance_of(*page, 0).certain) << "a dead slot may be half reaped";
  reap(*page, me.slot, Remains::draining);
  EXPECT_EQ(balance_of(*page, 0).used_bytes, 100u);
  EXPECT_TRUE(balances(*page)) << "with an orphan";
  release_torn_on(*page, me, 0);
  EXPECT_EQ(balance_of(*page, 0).used_bytes, 60u);
  EXPECT_TRUE(balances(*page)) << "with what it had exported";
  release_orphan(*page, me);
  EXPECT_TRUE(balances(*page));
}

TEST(Balance, ABusyHonestPageIsNeverAccused) {
  const SharedPage page = make_shared_page();
  std::atomic<bool> stop{false};
  std::vector<std::thread> tenants;
  for (std::uint32_t i = 0; i < 3; ++i) {
    tenants.emplace_back([&page, &stop, i] {
      std::mt19937 random(i);
      while (!stop) {
        const SlotRef me = seat(*page, made_up(100 + i));
        for (int n = 0; n < 50; ++n) {
          if (random() % 2 == 0) (void)reserve(*page, 0, me, random() % 1000, 5000);
          else (void)give_back(*page, 0, me, random() % 1000);
        }
        if (random() % 2 == 0) add_exported(*page, 0, me, 10);
        release(*page, me);
        for (std::uint32_t slot = 0; slot < 8; ++slot) {
          const SlotView seen = view(*page, slot);
          if (seen.kind == SlotKind::orphan) release_orphan(*page, {slot, seen.generation});
        }
      }
    });
  }
  // On a busy machine, changes may disturb all of these looks.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  int certain = 0;
  for (int look = 0; look < 20'000 || (certain == 0 && std::chrono::steady_clock::now() < deadline); ++look) {
    const Balance seen = balance_of(*page, 0);
    certain += seen.certain ? 1 : 0;
    if (seen.certain && seen.used_bytes != seen.slots_bytes) {
      ADD_FAILURE() << "look " << look << ": " << seen.used_bytes << " used, " << seen.slots_bytes << " held";
      break;
    }
  }
  stop = true;
  for (std::thread& tenant : tenants) tenant.join();
  EXPECT_GT(certain, 0);
  EXPECT_TRUE(balances(*page));
}

TEST(Balance, BytesRemovedFromTheAccountAreDetected) {
  const SharedPage page = make_shared_page();
  const SlotRef me = seat(*page, made_up(10));
  ASSERT_TRUE(reserve(*page, 0, me, kGiB, kGiB).ok);
  page->memory[0].word.used_bytes = 0;
  const Balance seen = balance_of(*page, 0);
  EXPECT_TRUE(seen.certain);
  EXPECT_EQ(seen.used_bytes, 0u);
  EXPECT_EQ(seen.slots_bytes, kGiB);
}

TEST(Balance, CountsAndIndexesOfACorruptedPageAreNotTrusted) {
  const SharedPage page = make_shared_page();
  std::mt19937_64 random(3);
  auto* const words = reinterpret_cast<std::uint64_t*>(page.get());
  for (int round = 0; round < 50; ++round) {
    for (int n = 0; n < 2000; ++n) words[random() % (sizeof(UsagePage) / 8)] = random();
    page->slots_seen = static_cast<std::uint32_t>(random());
    for (std::uint32_t account = 0; account < kMaxAccounts + 2; ++account) (void)balance_of(*page, account);
  }
}

// A reaper must return, whatever a tenant does to the page meanwhile.
TEST(Balance, APageThatNeverSettlesBlocksNoReader) {
  const SharedPage page = make_shared_page();
  const SlotRef me = seat(*page, made_up(10));
  ASSERT_TRUE(reserve(*page, 0, me, kGiB, kGiB).ok);
  std::atomic<bool> stop{false};
  std::thread liar([&] {
    auto& used = page->memory[0].word.used_bytes;
    for (std::uint64_t n = 0; !stop; ++n) {
      __atomic_store_n(&used, n, __ATOMIC_RELAXED);
      page->memory[0].peak_bytes.store(0, std::memory_order_relaxed);
    }
  });
  for (int round = 0; round < 20; ++round) {
    page->slots[me.slot].life = pack(Life{SlotKind::dead, me.generation, 10});
    reap(*page, me.slot);
    (void)take_off(*page, 0, {me.slot, static_cast<std::uint64_t>(round) + 1000}, 1);
  }
  stop = true;
  liar.join();
}

}  // namespace
}  // namespace headgate::ledger
