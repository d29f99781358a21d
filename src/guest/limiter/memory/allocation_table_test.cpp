#include "guest/limiter/memory/allocation_table.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <thread>
#include <unordered_map>
#include <vector>

namespace {

using headgate::limiter::Allocation;
using headgate::limiter::AllocationTable;

TEST(AllocationTable, AFreeReleasesExactlyItsAllocation) {
  const bool held = rc::check([](const std::vector<std::pair<std::uint16_t, std::uint32_t>>& steps) {
    auto table = std::make_unique<AllocationTable>();
    std::unordered_map<std::uint64_t, std::uint64_t> model;
    for (const auto& [low, bytes] : steps) {
      const std::uint64_t key = 0x7000'0000'0000 + (low % 97) * 512ull;  // few keys, so that they collide often
      Allocation found;
      const bool known = model.contains(key);
      if (known) {
        RC_ASSERT(table->take(key, found));
        RC_ASSERT(found.bytes == model[key]);
        RC_ASSERT(found.device_index == key % 7);
        model.erase(key);
      } else {
        RC_ASSERT(!table->take(key, found));
        RC_ASSERT(table->put(key, {bytes, static_cast<std::uint32_t>(key % 7)}));
        model[key] = bytes;
      }
    }
    for (const auto& [key, bytes] : model) {
      Allocation found;
      RC_ASSERT(table->look(key, found) && found.bytes == bytes);
    }
  });
  EXPECT_TRUE(held);
}

TEST(AllocationTable, AHundredThousandPointersAreFoundAgain) {
  auto table = std::make_unique<AllocationTable>();
  constexpr std::uint64_t kCount = 100'000;
  for (std::uint64_t i = 0; i < kCount; ++i) ASSERT_TRUE(table->put(i * 512, {i, 3}));
  for (std::uint64_t i = 0; i < kCount; i += 2) {
    Allocation found;
    ASSERT_TRUE(table->take(i * 512, found));
    ASSERT_EQ(found.bytes, i);
  }
  for (std::uint64_t i = 0; i < kCount; ++i) {
    Allocation found;
    ASSERT_EQ(table->look(i * 512, found), i % 2 == 1) << i;
  }
}

TEST(AllocationTable, TheLargestKeysAndSizesSurvive) {
  auto table = std::make_unique<AllocationTable>();
  Allocation found;
  EXPECT_TRUE(table->put(~0ull - 1, {(1ull << 56) - 1, 255}));
  EXPECT_TRUE(table->take(~0ull - 1, found));
  EXPECT_EQ(found.bytes, (1ull << 56) - 1);
  EXPECT_EQ(found.device_index, 255u);
}

TEST(AllocationTable, ConcurrentThreadsLoseNoEntry) {
  auto table = std::make_unique<AllocationTable>();
  std::vector<std::thread> threads;
  std::atomic<int> lost{0};
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 20'000; ++i) {
        const std::uint64_t key = (i * 4 + t) * 512;
        Allocation found;
        table->put(key, {i, 0});
        if (i % 3 != 0 && (!table->take(key, found) || found.bytes != i)) ++lost;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(lost, 0);
}

TEST(AllocationTable, AForkedChildHasNoneOfItsParentsPointers) {
  auto table = std::make_unique<AllocationTable>();
  table->put(4096, {1, 0});
  table->forget_after_fork();
  Allocation found;
  EXPECT_FALSE(table->take(4096, found));
  EXPECT_TRUE(table->put(4096, {2, 0}));
}

TEST(AllocationTable, ADestroyedContextReleasesExactlyItsMemory) {
  auto table = std::make_unique<AllocationTable>();
  constexpr std::uint64_t kMine = 0x1000, kOther = 0x2000;
  for (std::uint64_t i = 0; i < 3000; ++i) table->put(i * 512, {1, 0, i % 2 == 0 ? kMine : kOther});
  table->mark_owned(kMine);
  Allocation found;
  ASSERT_TRUE(table->take(0, found));  // freed, and the address reused, while the driver destroys
  table->put(0, {7, 0, kMine});
  std::uint64_t gone[2] = {};
  table->sweep_marked(kMine, gone);
  EXPECT_EQ(gone[0], 1499u);
  ASSERT_TRUE(table->look(0, found));
  EXPECT_EQ(found.bytes, 7u);
  EXPECT_EQ(found.owner, kMine);
  EXPECT_FALSE(table->look(2 * 512, found));
  EXPECT_TRUE(table->look(512, found));
}

}  // namespace
