// Decides when a launch may pass while no daemon runs, by the host's clock, which is common to all shares of a GPU.
// Each cycle has a time span per share (DevicePolicy::compute_unattended_from_ppm), so shares rarely have work at once.
// Otherwise none would know which of that time another had, and each would pay for all of it. Pure.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::limiter {

// Long enough that a thread that wakes late still hits its span.
inline constexpr std::int64_t kMinStretchNs = 2'000'000;
// Returns the price of a share's launches, with a part of `part_ppm`. Spans hold it to that; the account also charges
// time that others' last kernels had in its span, as no arbiter brings their marks.
constexpr std::uint32_t unattended_price_ppm(std::uint32_t part_ppm) {
  return part_ppm >= ledger::kWholeGpu ? part_ppm : std::min(part_ppm + part_ppm / 16, ledger::kWholeGpu - 1);
}

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

// Tells whether a share uses less than half of its part. Then it needs no time span: it would wait most of a cycle for
// each launch, and takes little from others. One per device.
class SparseUse {
 public:
  // `held_ns`: of the share's account so far.
  bool is_sparse(std::int64_t now_ns, std::uint32_t part_ppm, std::uint64_t held_ns) {
    constexpr auto kRelaxed = std::memory_order_relaxed;
    const std::int64_t cycle = now_ns / ledger::kUnattendedCycleNs,
                       half_ns = ledger::kUnattendedCycleNs * part_ppm / ledger::kWholeGpu / 2;
    const auto used_ns = [&] { return static_cast<std::int64_t>(held_ns - held_then_ns_.load(kRelaxed)); };
    if (const std::int64_t last = cycle_.exchange(cycle, kRelaxed); last != cycle) {
      sparse_.store(last != cycle - 1 || used_ns() < half_ns, kRelaxed);
      held_then_ns_.store(held_ns, kRelaxed);
    }
    return sparse_.load(kRelaxed) && used_ns() < half_ns;
  }

 private:
  // The current cycle, what the share had held at its start, and whether it used less than half of its part in the one
  // before.
  std::atomic<std::int64_t> cycle_{0};
  std::atomic<std::uint64_t> held_then_ns_{0};
  std::atomic<bool> sparse_{true};
};

}  // namespace headgate::limiter
