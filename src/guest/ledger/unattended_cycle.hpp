// The cycle in which each share of a GPU has a time span while no daemon runs (DevicePolicy::compute_unattended_*).
#pragma once

#include <algorithm>
#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

inline constexpr std::int64_t kMinCycleNs = 100'000'000, kMaxCycleNs = 10 * kMinCycleNs;
// Shorter kernels run over a span's end by so little that the account makes up for it.
inline constexpr std::int64_t kShortInCycleNs = 8'000'000;

// Returns the shortest cycle, a multiple of kMinCycleNs, in which a share's span has room for one of its kernels, as far
// as kMaxCycleNs allows. `kernel_ns` may be anything. Longer cycles would have fewer kernels run over a span's end, but
// 10 s are then no whole number of cycles: half the GPU in cycles of 800 ms is off by 2 points.
constexpr std::int64_t cycle_for_ns(std::int64_t kernel_ns, std::uint32_t part_ppm) {
  if (kernel_ns < kShortInCycleNs || part_ppm == 0) return kMinCycleNs;
  const std::int64_t needed_ns = std::min(kernel_ns, kMaxCycleNs) * kWholeGpu / part_ppm;
  return std::min((needed_ns + kMinCycleNs - 1) / kMinCycleNs * kMinCycleNs, kMaxCycleNs);
}

constexpr std::int64_t cycle_ns_of(std::uint32_t said_ms) {
  return std::clamp(std::int64_t{said_ms} * 1'000'000, kMinCycleNs, kMaxCycleNs);
}
inline std::int64_t cycle_ns_of(const DevicePolicy& policy) {
  return cycle_ns_of(policy.compute_unattended_cycle_ms.load(std::memory_order_relaxed));
}

}  // namespace headgate::ledger
