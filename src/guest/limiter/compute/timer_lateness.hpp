// How late timers wake this machine's threads, for who sleeps until work should end.
#pragma once

#include <algorithm>
#include <cstdint>

namespace headgate::limiter {

inline constexpr std::int64_t kDefaultLatenessNs = 15'000, kMaxLatenessNs = 100'000;
// Between two naps a processor hardly goes to sleep: what they show is less than what a longer sleep will see.
inline constexpr std::int64_t kNapNs = 50'000;

// The middle of what is seen, one step at a time: rare long delays do not move it.
inline std::int64_t next_lateness_ns(std::int64_t known_ns, std::int64_t asked_ns, std::int64_t slept_ns) {
  if (asked_ns < kNapNs || slept_ns < asked_ns) return known_ns;  // the second: woken by somebody
  const std::int64_t step_ns = slept_ns - asked_ns > known_ns ? 1'000 : -1'000;
  return std::clamp<std::int64_t>(known_ns + step_ns, 0, kMaxLatenessNs);
}

// So much before the end: half of it, for whoever comes too early has to take a nap, and is late again.
inline std::int64_t head_start_ns(std::int64_t known_ns) { return known_ns / 2; }

}  // namespace headgate::limiter
