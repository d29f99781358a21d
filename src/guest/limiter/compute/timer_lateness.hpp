// How late timers wake this machine's threads; used when sleeping until work should end.
#pragma once

#include <algorithm>
#include <cstdint>

namespace headgate::limiter {

inline constexpr std::int64_t kDefaultLatenessNs = 15'000, kMaxLatenessNs = 100'000;
// After short sleeps a processor is hardly in a sleep state, so their lateness is below that of longer sleeps.
inline constexpr std::int64_t kNapNs = 50'000;

// Moves towards the median, one step per observation: rare long delays do not matter.
inline std::int64_t next_lateness_ns(std::int64_t known_ns, std::int64_t asked_ns, std::int64_t slept_ns) {
  if (asked_ns < kNapNs || slept_ns < asked_ns) return known_ns;  // the second: woken early
  const std::int64_t step_ns = slept_ns - asked_ns > known_ns ? 1'000 : -1'000;
  return std::clamp<std::int64_t>(known_ns + step_ns, 0, kMaxLatenessNs);
}

// Returns how much before the end to wake: half the lateness. A thread that is early sleeps again, and is late.
inline std::int64_t head_start_ns(std::int64_t known_ns) { return known_ns / 2; }

}  // namespace headgate::limiter
