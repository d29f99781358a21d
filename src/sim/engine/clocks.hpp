// Returns the SM clock of a busy GPU: its top clock, or less if an application clock or a locked range applies.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/engine/state.hpp"
#include "sim/profile.hpp"

namespace headgate::sim {

[[nodiscard]] inline std::uint32_t busy_sm_clock_mhz(const Profile& profile, const NvmlDevice& set) {
  const std::uint32_t wanted = set.application_sm_mhz != 0 ? set.application_sm_mhz : profile.sm_clock_max_mhz;
  return set.sm_max_mhz == 0 ? wanted : std::clamp(wanted, set.sm_min_mhz, set.sm_max_mhz);
}

// Returns the duration at that clock of a kernel that runs `ns` at the top clock.
[[nodiscard]] inline std::uint64_t clocked_ns(const Profile& profile, const NvmlDevice& set, std::uint64_t ns) {
  const std::uint32_t clock = busy_sm_clock_mhz(profile, set);
  if (clock == 0 || clock >= profile.sm_clock_max_mhz) return ns;
  return static_cast<std::uint64_t>(static_cast<double>(ns) * profile.sm_clock_max_mhz / clock);
}

// Returns the energy drawn since the machine's start, in mJ. Power lies between idle power and the limit, in proportion
// to busy time. `limit_mw` has applied since the last settle_energy().
[[nodiscard]] inline std::uint64_t drawn_mj(const Profile& profile, const NvmlDevice& set, std::uint32_t limit_mw,
                                            std::uint64_t busy_ns, std::uint64_t now_ns) {
  const std::uint64_t idle_mw = profile.power_idle_mw, top_mw = std::max<std::uint64_t>(limit_mw, idle_mw);
  // mW x us = nJ; a million of them are one mJ.
  const std::uint64_t up_us = (now_ns - std::min(now_ns, set.energy_now_ns)) / 1000;
  const std::uint64_t busy_us = (busy_ns - std::min(busy_ns, set.energy_busy_ns)) / 1000;
  return set.energy_mj + up_us / 1000 * idle_mw / 1000 + busy_us / 1000 * (top_mw - idle_mw) / 1000;
}

// Called before the limit changes, to fix the energy drawn under the old limit.
inline void settle_energy(const Profile& profile, NvmlDevice& set, std::uint32_t limit_mw, std::uint64_t busy_ns,
                          std::uint64_t now_ns) {
  set.energy_mj = drawn_mj(profile, set, limit_mw, busy_ns, now_ns);
  set.energy_now_ns = now_ns;
  set.energy_busy_ns = busy_ns;
}

}  // namespace headgate::sim
