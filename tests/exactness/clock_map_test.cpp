#include "guest/limiter/compute/clock_map.hpp"

#include <gtest/gtest.h>

#include <random>

namespace headgate::limiter {
namespace {

constexpr std::int64_t kUs = 1'000, kMs = 1'000'000;
constexpr std::int64_t kOffset = 7'777'777'777;

// A process on a busy GPU, with one bracket per 2 ms. Its start waits up to 0.8 ms for its turn, and its end is seen
// within 80 us. Times are the host's.
struct Busy {
  ClockMap map;
  std::mt19937_64 random{1};
  double drift = 0;  // GPU ns gained per host ns
  std::int64_t offset = kOffset;
  std::int64_t now = 0;

  std::int64_t gpu(std::int64_t host) const {
    return host - offset + static_cast<std::int64_t>(drift * static_cast<double>(host));
  }
  void bracket(std::int64_t most_wait) {
    const std::int64_t start =
        now + 2 * kUs + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most_wait));
    const std::int64_t end = start + 300 * kUs;
    map.observe(gpu(start), now);
    map.bound(gpu(end), end + static_cast<std::int64_t>(random() % 80'000));
    now += 2 * kMs;
  }
  std::int64_t error() const { return map.host_ns(gpu(now)) - now; }
};

TEST(ClockMap, TwoProcessesAgreeWithin30UsOnABusyGpu) {
  for (const double drift : {0.0, 12e-6, -90e-6, 90e-6})
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      Busy busy;
      busy.random.seed(seed);
      busy.drift = drift;
      for (int i = 0; i < 30; ++i) busy.bracket(800 * kUs);
      EXPECT_NEAR(static_cast<double>(busy.error()), 0, 15e3) << seed << " drift " << drift;
    }
}
TEST(ClockMap, UndelayedStartsDecide) {
  for (const double drift : {12e-6, -90e-6, 90e-6}) {
    Busy busy;
    busy.drift = drift;
    for (int i = 0; i < 2'000; ++i) busy.bracket(i % 5 == 0 ? 1 : 800 * kUs);
    EXPECT_NEAR(static_cast<double>(busy.error()), -2e3, 1e3) << drift;
  }
}
// Bounds of later events, put back in time as if the clocks drifted, seemed to contradict each other, and the map began
// again with the start of a bracket that had waited for 90 ms.
TEST(ClockMap, AStreamThatIsSettledLateContradictsNothing) {
  Busy busy;
  for (int i = 0; i < 30; ++i) busy.bracket(800 * kUs);
  for (int i = 0; i < 8; ++i) {
    const std::int64_t start = busy.now - 1'000 * kMs;
    busy.map.observe(busy.gpu(start), start - 90 * kMs);
    busy.map.bound(busy.gpu(start + kMs), busy.now);
    EXPECT_NEAR(static_cast<double>(busy.error()), 0, 5e3);
  }
}
TEST(ClockMap, AClockThatWasSetIsFollowed) {
  for (const std::int64_t jump : {-50 * kMs, 50 * kMs}) {
    Busy busy;
    for (int i = 0; i < 500; ++i) busy.bracket(i % 5 == 0 ? 1 : 800 * kUs);
    busy.offset += jump;
    for (int i = 0; i < 500; ++i) busy.bracket(i % 5 == 0 ? 1 : 800 * kUs);
    EXPECT_NEAR(static_cast<double>(busy.error()), -2e3, 5e3) << jump;
  }
}

}  // namespace
}  // namespace headgate::limiter
