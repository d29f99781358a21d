#include "observe/recent.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace headgate::observe {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

snapshot::Share named(const std::string& name, std::uint64_t generation = 0) {
  snapshot::Share share;
  share.name = name;
  share.generation = generation;
  return share;
}

NodeSnapshot snapshot_of(std::uint64_t taken_ms, const std::vector<std::string>& shares = {"alice"}) {
  auto snapshot = std::make_shared<snapshot::Snapshot>();
  snapshot->taken_ns = taken_ms * kMs;
  for (const auto& name : shares) snapshot->shares.push_back(named(name));
  return snapshot;
}

TEST(RecentSnapshots, HasNoneAtTheStart) {
  const RecentSnapshots recent;
  EXPECT_EQ(recent.last(), nullptr);
  EXPECT_EQ(recent.second_ago(kMs), nullptr);
  EXPECT_EQ(recent.second_ago(named("alice"), kMs).share, nullptr);
}

TEST(RecentSnapshots, HasTheOneNearestToASecondAgo) {
  RecentSnapshots recent;
  recent.add(snapshot_of(1000));
  EXPECT_EQ(recent.second_ago(1001 * kMs)->taken_ns, 1000 * kMs);
  for (std::uint64_t ms = 1020; ms <= 5000; ms += 20) {
    recent.add(snapshot_of(ms));
    const std::uint64_t now_ns = (ms + 20) * kMs, elapsed_ns = now_ns - recent.second_ago(now_ns)->taken_ns;
    EXPECT_LE(elapsed_ns, 1050 * kMs) << ms;
    EXPECT_GE(elapsed_ns, std::min<std::uint64_t>(now_ns - 1000 * kMs, 950 * kMs)) << ms;
    EXPECT_EQ(recent.second_ago(named("alice"), now_ns).elapsed_ns, elapsed_ns) << ms;
    EXPECT_EQ(recent.last()->taken_ns, ms * kMs);
  }
}

TEST(RecentSnapshots, HasOneEachSecondAndOthersBetween) {
  RecentSnapshots recent;
  for (const std::uint64_t ms : {1000, 2000, 3000}) recent.add(snapshot_of(ms));
  EXPECT_EQ(recent.second_ago(3400 * kMs)->taken_ns, 2000 * kMs);
  recent.add(snapshot_of(3400));
  EXPECT_EQ(recent.second_ago(3790 * kMs)->taken_ns, 3000 * kMs);
  recent.add(snapshot_of(3790));
  EXPECT_EQ(recent.second_ago(4010 * kMs)->taken_ns, 3000 * kMs);
}

TEST(RecentSnapshots, HasAMinuteOldOneIfTakenEachMinute) {
  RecentSnapshots recent;
  for (const std::uint64_t ms : {0, 60'000, 120'000}) recent.add(snapshot_of(ms));
  EXPECT_EQ(recent.second_ago(180'000 * kMs)->taken_ns, 120'000 * kMs);
}

TEST(RecentSnapshots, ANewShareIsCountedFromTheFirstThatShowsIt) {
  RecentSnapshots recent;
  recent.add(snapshot_of(0, {"alice"}));
  for (const std::uint64_t ms : {1000, 1100, 1200}) recent.add(snapshot_of(ms, {"alice", "bob"}));
  EXPECT_EQ(recent.second_ago(named("bob"), 1300 * kMs).elapsed_ns, 300 * kMs);
  EXPECT_EQ(recent.second_ago(named("alice"), 1300 * kMs).elapsed_ns, 1300 * kMs);
  EXPECT_EQ(recent.second_ago(named("bob"), 2100 * kMs).elapsed_ns, 1000 * kMs);
  EXPECT_EQ(recent.second_ago(named("carol"), 2000 * kMs).share, nullptr);
  EXPECT_EQ(recent.second_ago(named("bob", 7), 2100 * kMs).share, nullptr) << "another of that name";
}

}  // namespace
}  // namespace headgate::observe
