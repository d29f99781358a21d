#include "guest/limiter/memory/holdings.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <thread>
#include <unordered_map>
#include <vector>

namespace {

using headgate::limiter::Holding;
using headgate::limiter::Holdings;

TEST(Holdings, AFreeGivesBackExactlyWhatItsAllocationTook) {
  const bool held = rc::check([](const std::vector<std::pair<std::uint16_t, std::uint32_t>>& steps) {
    auto books = std::make_unique<Holdings>();
    std::unordered_map<std::uint64_t, std::uint64_t> model;
    for (const auto& [low, bytes] : steps) {
      const std::uint64_t key = 0x7000'0000'0000 + (low % 97) * 512ull;  // few keys: they meet often
      Holding found;
      const bool known = model.contains(key);
      if (known) {
        RC_ASSERT(books->take(key, found));
        RC_ASSERT(found.bytes == model[key]);
        RC_ASSERT(found.device_index == key % 7);
        model.erase(key);
      } else {
        RC_ASSERT(!books->take(key, found));
        RC_ASSERT(books->put(key, {bytes, static_cast<std::uint32_t>(key % 7)}));
        model[key] = bytes;
      }
    }
    for (const auto& [key, bytes] : model) {
      Holding found;
      RC_ASSERT(books->look(key, found) && found.bytes == bytes);
    }
  });
  EXPECT_TRUE(held);
}

TEST(Holdings, AHundredThousandPointersAreAllFoundAgain) {
  auto books = std::make_unique<Holdings>();
  constexpr std::uint64_t kCount = 100'000;
  for (std::uint64_t i = 0; i < kCount; ++i) ASSERT_TRUE(books->put(i * 512, {i, 3}));
  for (std::uint64_t i = 0; i < kCount; i += 2) {
    Holding found;
    ASSERT_TRUE(books->take(i * 512, found));
    ASSERT_EQ(found.bytes, i);
  }
  for (std::uint64_t i = 0; i < kCount; ++i) {
    Holding found;
    ASSERT_EQ(books->look(i * 512, found), i % 2 == 1) << i;
  }
}

TEST(Holdings, TheLargestKeysAndSizesSurvive) {
  auto books = std::make_unique<Holdings>();
  Holding found;
  EXPECT_TRUE(books->put(~0ull - 1, {(1ull << 56) - 1, 255}));
  EXPECT_TRUE(books->take(~0ull - 1, found));
  EXPECT_EQ(found.bytes, (1ull << 56) - 1);
  EXPECT_EQ(found.device_index, 255u);
}

TEST(Holdings, ThreadsThatAllocateAtOnceLoseNothing) {
  auto books = std::make_unique<Holdings>();
  std::vector<std::thread> threads;
  std::atomic<int> lost{0};
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 20'000; ++i) {
        const std::uint64_t key = (i * 4 + t) * 512;
        Holding found;
        books->put(key, {i, 0});
        if (i % 3 != 0 && (!books->take(key, found) || found.bytes != i)) ++lost;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(lost, 0);
}

TEST(Holdings, AForkedChildKnowsNothingOfItsParentsPointers) {
  auto books = std::make_unique<Holdings>();
  books->put(4096, {1, 0});
  books->forget_after_fork();
  Holding found;
  EXPECT_FALSE(books->take(4096, found));
  EXPECT_TRUE(books->put(4096, {2, 0}));
}

TEST(Holdings, WhatAContextTakesAlongIsGivenBackAndNothingElse) {
  auto books = std::make_unique<Holdings>();
  constexpr std::uint64_t kMine = 0x1000, kOther = 0x2000;
  for (std::uint64_t i = 0; i < 3000; ++i) books->put(i * 512, {1, 0, i % 2 == 0 ? kMine : kOther});
  books->mark_owned(kMine);
  Holding found;
  ASSERT_TRUE(books->take(0, found));  // freed, and the address given out anew, while the driver destroys
  books->put(0, {7, 0, kMine});
  std::uint64_t gone[2] = {};
  books->sweep_marked(kMine, gone);
  EXPECT_EQ(gone[0], 1499u);
  ASSERT_TRUE(books->look(0, found));
  EXPECT_EQ(found.bytes, 7u);
  EXPECT_EQ(found.owner, kMine);
  EXPECT_FALSE(books->look(2 * 512, found));
  EXPECT_TRUE(books->look(512, found));
}

}  // namespace
