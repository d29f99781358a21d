#include "guest/limiter/compute/ring_time.hpp"

#include <gtest/gtest.h>

namespace headgate::limiter {
namespace {

constexpr std::int64_t kTick = 1'000'000, kNow = 1'000 * kTick;

TEST(RingTime, ALaunchAtAShutGateRingsAtOnceAndEach10Ms) {
  RingTime ring;
  EXPECT_TRUE(ring.is_due(false, 0, kNow));
  EXPECT_FALSE(ring.is_due(false, 0, kNow + 9 * kTick));
  EXPECT_TRUE(ring.is_due(false, 0, kNow + 10 * kTick));
}

TEST(RingTime, AQueuedLaunchDoesNotRingWhileTheHeartbeatMoves) {
  RingTime ring;
  for (std::int64_t at_ns = kNow; at_ns < kNow + 1'000 * kTick; at_ns += 10 * kTick)
    EXPECT_FALSE(ring.is_due(true, at_ns % (20 * kTick), at_ns));
}

TEST(RingTime, AQueuedLaunchRingsAfter20MsWithoutAHeartbeat) {
  RingTime ring;
  EXPECT_FALSE(ring.is_due(true, 0, kNow));
  EXPECT_FALSE(ring.is_due(true, 10 * kTick, kNow + 10 * kTick));
  EXPECT_TRUE(ring.is_due(true, 20 * kTick, kNow + 20 * kTick));
}

TEST(RingTime, ALaunchWhoseGateIsShutAgainRings) {
  RingTime ring;
  EXPECT_FALSE(ring.is_due(true, 0, kNow));
  EXPECT_TRUE(ring.is_due(false, 0, kNow + 10 * kTick));
}

}  // namespace
}  // namespace headgate::limiter
