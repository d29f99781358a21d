// Decides when a launch may pass while no daemon runs, by the host's clock, which is common to all shares of a GPU.
// Each cycle has a time span per share (DevicePolicy::compute_unattended_from_ppm), so shares rarely have work at once.
// Otherwise none would know which of that time another had, and each would pay for all of it. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::limiter {

// Long enough that a thread that wakes late still hits its span.
inline constexpr std::int64_t kMinStretchNs = 2'000'000;

// Returns how long a launch waits if its process has `ahead_ns` of work in flight; 0: it may pass. The last one may run
// past the end.
constexpr std::int64_t stretch_wait_ns(std::int64_t now_ns, std::int64_t ahead_ns, std::uint32_t from_ppm,
                                       std::uint32_t part_ppm) {
  constexpr std::int64_t kCycle = ledger::kUnattendedCycleNs;
  if (from_ppm >= ledger::kWholeGpu || part_ppm >= ledger::kWholeGpu) return 0;
  const std::int64_t from_ns = kCycle * from_ppm / ledger::kWholeGpu;
  const std::int64_t length_ns = std::max(kCycle * part_ppm / ledger::kWholeGpu, kMinStretchNs);
  // Time since the share's last span began.
  const std::int64_t since_ns = (now_ns % kCycle + kCycle - from_ns) % kCycle;
  const bool fits = (since_ns + std::max<std::int64_t>(0, ahead_ns)) % kCycle < length_ns;
  return fits ? 0 : kCycle - since_ns;
}

}  // namespace headgate::limiter
