// How the shares of one GPU divide its time while no daemon runs. Without an arbiter each share gets a fixed part,
// which its limiters hold it to (DevicePolicy::compute_unattended_ppm).
//
// Each share first gets its promise. What the promises leave is divided by weight among the shares that have processes;
// what a ceiling cuts off goes to the others by weight again. A share without processes keeps its promise, because
// programs may start in it, and gets nothing of the rest. A share that is alone on its GPU gets its ceiling.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tenancy/shares.hpp"

namespace headgate::tenancy {

// A share on the GPU. Parts are ppm of its time.
struct UnattendedClaim {
  std::uint32_t promise_ppm = 0;  // 0..ceiling_ppm
  std::uint32_t ceiling_ppm = 0;  // 1..ledger::kWholeGpu
  std::uint32_t weight = 100;     // 1..kMaxWeight
  bool has_processes = false;     // that may launch now

  friend bool operator==(const UnattendedClaim&, const UnattendedClaim&) = default;
};

// The page says no less than this, 0.1 %: a program in a share that gets nothing must not seem to hang for ever.
inline constexpr std::uint32_t kMinUnattendedPpm = 1'000;

// The parts, in the order of `claims`: their sum is at most ledger::kWholeGpu, none is above its ceiling, and none
// below its promise. Promises that add up to more than the GPU are scaled down to it. If no share has processes, all
// count as if they had. Pure.
[[nodiscard]] std::vector<std::uint32_t> divide_unattended(std::span<const UnattendedClaim> claims);

// Writes the parts of all shares on the GPU with that UUID into their policy pages, the cycle, and when each share's
// span of it begins: they follow one another. A paused share counts as one without processes; one with unusable pages
// keeps its promise. Call it on the daemon's loop.
using HasProcesses = std::function<bool(const std::string& share)>;
void write_unattended(Shares& shares, const std::string& uuid, const HasProcesses& has_processes);

}  // namespace headgate::tenancy
