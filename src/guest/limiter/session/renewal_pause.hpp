// How long a limiter waits before it asks for another doorbell once more. A bell is exchanged because its daemon has
// died, and soon there is the next; or because another process of the share shuts down whatever bell there is, which
// must cost the others nothing.
#pragma once

#include <cstdint>

namespace headgate::limiter {

inline constexpr std::int64_t kFirstRenewalPauseNs = 100'000'000, kLongestRenewalPauseNs = 3'200'000'000;

// After the daemon had answered, `since_last_ns` after its last answer. A bell that was good for a while is none that
// others shut down.
constexpr std::int64_t next_renewal_pause_ns(std::int64_t pause_ns, std::int64_t since_last_ns) {
  if (since_last_ns > 2 * kLongestRenewalPauseNs) return kFirstRenewalPauseNs;
  return 2 * pause_ns < kLongestRenewalPauseNs ? 2 * pause_ns : kLongestRenewalPauseNs;
}

}  // namespace headgate::limiter
