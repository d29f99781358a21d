#include "guest/limiter/compute/unattended.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace headgate::limiter {
namespace {

constexpr std::int64_t kMs = 1'000'000, kCycle = ledger::kUnattendedCycleNs;

TEST(Interval, PassesInsideAndWaitsForItsStart) {
  // From 50 to 75 ms of every 100 ms.
  EXPECT_EQ(stretch_wait_ns(7 * kCycle + 50 * kMs, 0, 500'000, 250'000), 0);
  EXPECT_EQ(stretch_wait_ns(7 * kCycle + 74 * kMs, 0, 500'000, 250'000), 0);
  EXPECT_EQ(stretch_wait_ns(7 * kCycle + 75 * kMs, 0, 500'000, 250'000), 75 * kMs);
  EXPECT_EQ(stretch_wait_ns(7 * kCycle + 49 * kMs, 0, 500'000, 250'000), 1 * kMs);
}

TEST(Interval, CountsTheWorkAhead) {
  EXPECT_EQ(stretch_wait_ns(70 * kMs, 4 * kMs, 500'000, 250'000), 0);
  EXPECT_EQ(stretch_wait_ns(70 * kMs, 6 * kMs, 500'000, 250'000), 80 * kMs);
  EXPECT_EQ(stretch_wait_ns(70 * kMs, -6 * kMs, 500'000, 250'000), 0) << "that should be done";
}

TEST(Interval, MayEndInTheNextCycle) {
  // From 90 to 110 ms.
  EXPECT_EQ(stretch_wait_ns(kCycle + 5 * kMs, 0, 900'000, 200'000), 0);
  EXPECT_EQ(stretch_wait_ns(kCycle + 10 * kMs, 0, 900'000, 200'000), 80 * kMs);
}

TEST(Interval, IsLongEnoughToBeFound) {
  EXPECT_EQ(stretch_wait_ns(1 * kMs, 0, 0, 1'000), 0);
  EXPECT_EQ(stretch_wait_ns(2 * kMs, 0, 0, 1'000), 98 * kMs);
}

TEST(Interval, CoversAllTimeForALoneShare) {
  EXPECT_EQ(stretch_wait_ns(99 * kMs, 0, ledger::kWholeGpu, 10'000), 0);
  EXPECT_EQ(stretch_wait_ns(99 * kMs, 0, 0, ledger::kWholeGpu), 0);
}

// For parts of at least the minimum span that add up to the GPU: exactly one share may launch at any time.
RC_GTEST_PROP(Interval, BelongsToOneShareAtATime, (std::uint64_t at)) {
  const auto first = *rc::gen::inRange<std::uint32_t>(20'000, 900'000);
  const auto second = *rc::gen::inRange<std::uint32_t>(20'000, 980'001 - first);
  const std::uint32_t third = ledger::kWholeGpu - first - second;
  const auto now_ns = static_cast<std::int64_t>(at >> 2);
  const auto may = [&](std::uint32_t from, std::uint32_t part) { return stretch_wait_ns(now_ns, 0, from, part) == 0; };
  RC_ASSERT(may(0, first) + may(first, second) + may(first + second, third) == 1);
}

// After the returned wait, the launch may pass.
RC_GTEST_PROP(Interval, HasStartedAfterTheWait, (std::uint64_t at)) {
  const auto from = *rc::gen::inRange<std::uint32_t>(0, ledger::kWholeGpu);
  const auto part = *rc::gen::inRange<std::uint32_t>(1, ledger::kWholeGpu);
  const auto now_ns = static_cast<std::int64_t>(at >> 2);
  const std::int64_t wait_ns = stretch_wait_ns(now_ns, 0, from, part);
  RC_ASSERT(wait_ns >= 0 && wait_ns <= kCycle);
  RC_ASSERT(stretch_wait_ns(now_ns + wait_ns, 0, from, part) == 0);
}

}  // namespace
}  // namespace headgate::limiter
