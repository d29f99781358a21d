// Histogram of how long a share's launches wait at its gate on one GPU. Written by limiters, relaxed. The share's
// processes can write anything there, so readers clamp.
#pragma once

#include <atomic>
#include <cstdint>

namespace headgate::ledger {

// Upper bounds, inclusive. A look at the gate takes 5 us, a turn 2 to 5 ms; a shut gate lets work pass in debt after 20
// ms; kernels of seconds make others wait as long.
inline constexpr std::int64_t kDelayBoundsNs[] = {10'000,      100'000,     500'000,       1'000'000,     2'000'000,
                                                  5'000'000,   10'000'000,  20'000'000,    50'000'000,    100'000'000,
                                                  200'000'000, 500'000'000, 1'000'000'000, 10'000'000'000};
inline constexpr std::uint32_t kDelayBounds = sizeof kDelayBoundsNs / sizeof kDelayBoundsNs[0];

struct alignas(64) LaunchDelays {
  std::atomic<std::uint64_t> prompt;                    // did not wait; added when their bracket closes
  std::atomic<std::uint64_t> waited[kDelayBounds + 1];  // waited; added as they pass; last: above all bounds
};
static_assert(sizeof(LaunchDelays) == 128);

constexpr std::uint32_t delay_bucket(std::int64_t waited_ns) {
  std::uint32_t bucket = 0;
  while (bucket < kDelayBounds && waited_ns > kDelayBoundsNs[bucket]) ++bucket;
  return bucket;
}
static_assert(delay_bucket(0) == 0 && delay_bucket(10'000) == 0 && delay_bucket(10'001) == 1);
static_assert(delay_bucket(10'000'000'001) == kDelayBounds);

}  // namespace headgate::ledger
