#include "power/power_feed.hpp"

#include <gtest/gtest.h>

#include <atomic>

namespace headgate::power {
namespace {

constexpr auto kFeedPatience = std::chrono::seconds(20);
constexpr std::chrono::nanoseconds kTick = std::chrono::milliseconds(1);

// A subscriber that waits for its wake-ups.
class Follower {
 public:
  Follower(PowerFeed& feed, const std::vector<std::uint32_t>& devices, std::chrono::nanoseconds gap = {})
      : feed_(feed), id_(feed.subscribe(devices, gap, [this] {
          const std::lock_guard lock(mutex_);
          woken_ = true;
          changed_.notify_all();
        })) {}
  ~Follower() { feed_.unsubscribe(id_); }

  // Returns values until there are `enough`.
  std::vector<PowerSample> await(std::size_t enough) {
    std::vector<PowerSample> all;
    const auto deadline = std::chrono::steady_clock::now() + kFeedPatience;
    while (all.size() < enough) {
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_until(lock, deadline, [this] { return woken_; })) break;
        woken_ = false;
      }
      for (const PowerSample& sample : feed_.take(id_)) all.push_back(sample);
    }
    return all;
  }
  std::vector<PowerSample> now() { return feed_.take(id_); }

 private:
  PowerFeed& feed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  const std::uint64_t id_;
};

TEST(PowerFeed, ALateSubscriberGetsAFlatReadingAtOnce) {
  PowerFeed feed({0, 1}, kTick, [](std::uint32_t device) { return PowerDraw{.mw = 100 + device, .dram_mw = {}}; });
  Follower first(feed, {0});
  EXPECT_EQ(first.await(1).at(0).draw.mw, 100u);
  Follower late(feed, {0, 1});
  const auto samples = late.await(2);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].device + samples[1].device, 1u);
}

TEST(PowerFeed, OnlyFollowedDevicesAreRead) {
  std::atomic<std::uint64_t> read_0 = 0, read_1 = 0;
  PowerFeed feed({0, 1}, kTick, [&](std::uint32_t device) {
    return PowerDraw{.mw = ++(device == 0 ? read_0 : read_1), .dram_mw = {}};
  });
  {
    Follower follower(feed, {1});
    EXPECT_EQ(follower.await(5).size(), 5u);
  }
  EXPECT_EQ(read_0, 0u) << "GPU 0 has no subscriber";
  EXPECT_EQ(feed.subscribers(), 0u);
  const std::uint64_t after = read_1;
  Follower other(feed, {0});
  EXPECT_EQ(other.await(5).size(), 5u);
  EXPECT_LE(read_1, after + 1) << "a reading under way may still end";
}

TEST(PowerFeed, UnchangedValuesAreNotRepeated) {
  std::atomic<std::uint64_t> value = 1, reads = 0;
  PowerFeed feed({0}, kTick, [&](std::uint32_t) {
    ++reads;
    return PowerDraw{.mw = value, .dram_mw = {}};
  });
  Follower follower(feed, {0});
  EXPECT_EQ(follower.await(1).at(0).draw.mw, 1u);
  while (reads < 5) std::this_thread::yield();
  value = 2;
  EXPECT_EQ(follower.await(1).at(0).draw.mw, 2u) << "and nothing between";
}

TEST(PowerFeed, AnErrorKeepsTheLastValueAndTheFeed) {
  std::atomic<bool> broken = true;
  PowerFeed feed({0}, kTick, [&](std::uint32_t) -> Result<PowerDraw> {
    if (broken.exchange(false)) return fail(ErrorCode::unreachable, "a GPU is lost");
    return PowerDraw{.mw = 7, .dram_mw = {}};
  });
  Follower follower(feed, {0});
  EXPECT_EQ(follower.await(1).at(0).draw.mw, 7u);
}

TEST(PowerFeed, ACoarseSubscriberGetsSpacedValues) {
  std::atomic<std::uint64_t> value = 0, clock_ns = 1;
  PowerFeed feed(
      {0}, kTick, [&](std::uint32_t) { return PowerDraw{.mw = ++value, .dram_mw = {}}; },
      [&] { return clock_ns.load(); });
  constexpr std::chrono::nanoseconds kGap(1000);
  Follower coarse(feed, {0}, kGap);
  const std::uint64_t first = coarse.await(1).at(0).draw.mw;
  Follower live(feed, {0});
  EXPECT_GE(live.await(5).size(), 5u) << "values change";
  EXPECT_TRUE(coarse.now().empty()) << "and its clock has not moved";
  clock_ns += 999;
  EXPECT_TRUE(coarse.now().empty());
  clock_ns += 1;
  EXPECT_GT(coarse.await(1).at(0).draw.mw, first) << "the newest one";
  EXPECT_TRUE(coarse.now().empty());
}

TEST(PowerFeed, SubscribersMayComeAndGo) {
  std::atomic<std::uint64_t> value = 0;
  PowerFeed feed({0, 1, 2}, kTick / 10, [&](std::uint32_t) { return PowerDraw{.mw = ++value, .dram_mw = {}}; });
  std::vector<std::thread> crowd;
  for (std::uint32_t i = 0; i < 4; ++i) {
    crowd.emplace_back([&feed, i] {
      for (int round = 0; round < 50; ++round) {
        Follower follower(feed, {i % 3, (i + 1) % 3, 99});
        EXPECT_GE(follower.await(2).size(), 2u);
      }
    });
  }
  for (std::thread& one : crowd) one.join();
  EXPECT_EQ(feed.subscribers(), 0u);
}

}  // namespace
}  // namespace headgate::power
