// How long a limiter waits between requests for a doorbell. A bell is replaced because its daemon died, and a new one
// comes soon. Or another process of the share keeps shutting down its bells, which must not cost the others anything.
#pragma once

#include <cstdint>

namespace headgate::limiter {

inline constexpr std::int64_t kFirstRenewalPauseNs = 100'000'000, kLongestRenewalPauseNs = 3'200'000'000;

// For an answer `since_last_ns` after the previous one. A bell that worked for a while was not shut down by others.
constexpr std::int64_t next_renewal_pause_ns(std::int64_t pause_ns, std::int64_t since_last_ns) {
  if (since_last_ns > 2 * kLongestRenewalPauseNs) return kFirstRenewalPauseNs;
  return 2 * pause_ns < kLongestRenewalPauseNs ? 2 * pause_ns : kLongestRenewalPauseNs;
}

}  // namespace headgate::limiter
