#include "guest/limiter/compute/unattended.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace headgate::limiter {
namespace {

constexpr std::int64_t kMs = 1'000'000, kCycle = ledger::kMinCycleNs;

// From 50 to 75 ms of every 100 ms.
constexpr Span kQuarter = span_of(kCycle, 500'000, 250'000);
constexpr std::int64_t wait_ns(const Span& span, std::int64_t now_ns, std::int64_t ahead_ns = 0) {
  return span_wait_ns(span, now_ns, ahead_ns, 0, 0);
}

TEST(TimeSpan, PassesInsideAndWaitsForItsStart) {
  EXPECT_EQ(wait_ns(kQuarter, 7 * kCycle + 50 * kMs), 0);
  EXPECT_EQ(wait_ns(kQuarter, 7 * kCycle + 75 * kMs), 0);
  EXPECT_EQ(wait_ns(kQuarter, 7 * kCycle + 90 * kMs), 60 * kMs);
  EXPECT_EQ(wait_ns(kQuarter, 7 * kCycle + 49 * kMs), 1 * kMs);
}

TEST(TimeSpan, CountsTheWorkAhead) {
  EXPECT_EQ(wait_ns(kQuarter, 70 * kMs, 4 * kMs), 0);
  EXPECT_EQ(wait_ns(kQuarter, 70 * kMs, 20 * kMs), 80 * kMs);
  EXPECT_EQ(wait_ns(kQuarter, 70 * kMs, -6 * kMs), 0) << "that should be done";
}

TEST(TimeSpan, MayEndInTheNextCycle) {
  const Span span = span_of(kCycle, 900'000, 200'000);  // to 10 ms
  EXPECT_EQ(wait_ns(span, kCycle + 5 * kMs), 0);
  EXPECT_EQ(wait_ns(span, kCycle + 25 * kMs), 65 * kMs);
}

TEST(TimeSpan, IsLongEnoughToBeFound) { EXPECT_EQ(span_of(kCycle, 0, 1'000).length_ns, 2 * kMs); }

TEST(TimeSpan, CoversAllTimeForALoneShare) {
  EXPECT_EQ(wait_ns(span_of(kCycle, ledger::kWholeGpu, 10'000), 99 * kMs), 0);
  EXPECT_EQ(wait_ns(span_of(kCycle, 0, ledger::kWholeGpu), 99 * kMs), 0);
}

// What others' kernels took of the span is made up for after it, for a sixteenth of a cycle.
TEST(TimeSpan, GoesOnWhileHalfAKernelIsOwed) {
  const auto wait_at_ns = [](std::int64_t at_ns, std::int64_t owed_ns) {
    return span_wait_ns(kQuarter, at_ns, 0, 10 * kMs, owed_ns);
  };
  EXPECT_EQ(wait_at_ns(65 * kMs, 0), 0) << "it ends with the span";
  EXPECT_EQ(wait_at_ns(66 * kMs, 4 * kMs), 4 * kMs) << "until a millisecond more is owed";
  EXPECT_EQ(wait_at_ns(66 * kMs, 5 * kMs), 0);
  EXPECT_EQ(wait_at_ns(81 * kMs, 5 * kMs), 0);
  EXPECT_EQ(wait_at_ns(82 * kMs, 5 * kMs), 68 * kMs);
  EXPECT_EQ(span_wait_ns(kQuarter, 50 * kMs, 0, 300 * kMs, 13 * kMs), 0) << "no span has room for it";
}

// A share that is owed time begins before its span, by as much. Others wait there for time that their next kernel
// needs.
TEST(TimeSpan, BeginsEarlyByWhatIsOwed) {
  const auto wait_at_ns = [](std::int64_t at_ns, std::int64_t owed_ns) {
    return span_wait_ns(kQuarter, at_ns, 0, kMs, owed_ns);
  };
  EXPECT_EQ(wait_at_ns(39 * kMs, 10 * kMs), 11 * kMs);
  EXPECT_EQ(wait_at_ns(40 * kMs, 10 * kMs), 0);
  EXPECT_EQ(wait_at_ns(99 * kMs, 90 * kMs), 51 * kMs) << "half a cycle at most";
  EXPECT_EQ(wait_at_ns(100 * kMs, 90 * kMs), 0);
}

TEST(TimeSpan, KnowsWhenOthersMayHaveTheGpu) {
  EXPECT_TRUE(near_span_ends(kQuarter, 55 * kMs, 56 * kMs));
  EXPECT_FALSE(near_span_ends(kQuarter, 63 * kMs, 75 * kMs));
  EXPECT_TRUE(near_span_ends(kQuarter, 63 * kMs, 76 * kMs));
}

// For parts of at least the minimum span that add up to the GPU: at most one share may launch at any time, if none is
// owed any.
RC_GTEST_PROP(TimeSpan, BelongsToOneShareAtATime, (std::uint64_t at)) {
  const auto first = *rc::gen::inRange<std::uint32_t>(20'000, 900'000);
  const auto second = *rc::gen::inRange<std::uint32_t>(20'000, 980'001 - first);
  const std::uint32_t third = ledger::kWholeGpu - first - second;
  const auto now_ns = static_cast<std::int64_t>(at >> 2);
  const auto may = [&](std::uint32_t from, std::uint32_t part) {
    return span_wait_ns(span_of(kCycle, from, part), now_ns, 0, 2, 0) == 0;
  };
  RC_ASSERT(may(0, first) + may(first, second) + may(first + second, third) <= 1);
}

// After the returned wait, the launch may pass.
RC_GTEST_PROP(TimeSpan, HasStartedAfterTheWait, (std::uint64_t at)) {
  const auto from = *rc::gen::inRange<std::uint32_t>(0, ledger::kWholeGpu);
  const auto part = *rc::gen::inRange<std::uint32_t>(1, ledger::kWholeGpu);
  const auto cycles = *rc::gen::inRange<std::int64_t>(1, 11);
  const auto now_ns = static_cast<std::int64_t>(at >> 2);
  const Span span = span_of(cycles * kCycle, from, part);
  const std::int64_t ns = wait_ns(span, now_ns);
  RC_ASSERT(ns >= 0 && ns <= span.cycle_ns);
  RC_ASSERT(wait_ns(span, now_ns + ns) == 0);
}

TEST(Cycle, HasRoomForALongKernel) {
  EXPECT_EQ(ledger::cycle_for_ns(5 * kMs, 10'000), kCycle);
  EXPECT_EQ(ledger::cycle_for_ns(30 * kMs, 500'000), kCycle);
  EXPECT_EQ(ledger::cycle_for_ns(30 * kMs, 200'000), 2 * kCycle);
  EXPECT_EQ(ledger::cycle_for_ns(INT64_MAX, 1), ledger::kMaxCycleNs);
  EXPECT_EQ(ledger::cycle_for_ns(INT64_MIN, 0), kCycle);
  EXPECT_EQ(ledger::cycle_ns_of(0u), kCycle);
}

}  // namespace
}  // namespace headgate::limiter
