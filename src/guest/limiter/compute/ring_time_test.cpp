#include "guest/limiter/compute/ring_time.hpp"

#include <gtest/gtest.h>

namespace headgate::limiter {
namespace {

constexpr std::int64_t kMs = 1'000'000, kNow = 1'000 * kMs;

TEST(RingTime, ALaunchAtAShutGateRingsAtOnceAndEach10Ms) {
  RingTime ring;
  EXPECT_TRUE(ring.is_due(false, 0, kNow));
  EXPECT_FALSE(ring.is_due(false, 0, kNow + 9 * kMs));
  EXPECT_TRUE(ring.is_due(false, 0, kNow + 10 * kMs));
}

TEST(RingTime, AQueuedLaunchDoesNotRingWhileTheHeartbeatMoves) {
  RingTime ring;
  for (std::int64_t at_ns = kNow; at_ns < kNow + 1'000 * kMs; at_ns += 10 * kMs)
    EXPECT_FALSE(ring.is_due(true, at_ns % (20 * kMs), at_ns));
}

TEST(RingTime, AQueuedLaunchRingsAfter20MsWithoutAHeartbeat) {
  RingTime ring;
  EXPECT_FALSE(ring.is_due(true, 0, kNow));
  EXPECT_FALSE(ring.is_due(true, 10 * kMs, kNow + 10 * kMs));
  EXPECT_TRUE(ring.is_due(true, 20 * kMs, kNow + 20 * kMs));
}

TEST(RingTime, ALaunchWhoseGateIsShutAgainRings) {
  RingTime ring;
  EXPECT_FALSE(ring.is_due(true, 0, kNow));
  EXPECT_TRUE(ring.is_due(false, 0, kNow + 10 * kMs));
}

}  // namespace
}  // namespace headgate::limiter
