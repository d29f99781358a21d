// Long kernels start no earlier than in a fluid system: the eligibility rule of WF2Q (Bennett and Zhang, INFOCOM 1996).
//
// A kernel longer than a turn cannot be interrupted: it has time slices next to others' turns until it ends. So a share
// may start one only if it has had no more than the rule gives it: its promise, and by weight what promises leave
// (generalised processor sharing with reservations and limits; same in tests/exactness/fluid.hpp). Then each share is
// ahead by at most one kernel per process, however long its kernels are.
#include <algorithm>

#include "schedule/arbiter.hpp"

namespace headgate::schedule {

// Advances the fluid since the last look. GPUs without long kernels need none.
void Arbiter::keep_pace(std::int64_t now_ns, std::int64_t passed_ns) {
  for (std::uint32_t g = 0; g < gpu_count_; ++g) {
    int seek = 0;
    bool has_long = false;
    std::int64_t most_ns = kWindowNs;  // how far behind one of them may be
    for (const GangOnGpu& stake : seekers(g)) {
      ++seek, has_long |= stake.long_ns >= kLongKernelNs;
      most_ns = std::max(most_ns, stake.out_of_reach_ns);
    }
    const bool flows = has_long && seek > 1 && gpus_[g].policy == Policy::fair;
    if (flows) fill(g);
    for (GangOnGpu& stake : seekers(g)) {
      // Time without another share that wants the GPU costs nothing, and earlier time is forgotten as time passes:
      // another share may be visible only between two of its kernels.
      if (!flows) {
        stake.ahead_ns = std::max<std::int64_t>(0, stake.ahead_ns - passed_ns);
        continue;
      }
      stake.sought_ns = now_ns;
      stake.ahead_ns -= static_cast<std::int64_t>(stake.part * static_cast<double>(passed_ns));
      stake.ahead_ns = std::clamp(stake.ahead_ns, -most_ns, kMaxAheadNs);
    }
  }
  for (GangOnGpu& stake : stakes()) {
    // What others' kernels kept from a share is not owed to it after a pause, nor if it pauses between its kernels.
    if (!stake.seeks() || stake.has_gaps)
      stake.ahead_ns = std::max(stake.ahead_ns, -std::max(kWindowNs, stake.kernel_ns()));
    for (ShareOnGpu& place : stake.places) place.early = is_early(stake, place, now_ns);
  }
}

// Each gang that seeks the GPU gets its promise; the rest is distributed by weight, up to the ceilings. If promises
// exceed the GPU, all shrink by the same factor.
void Arbiter::fill(std::uint32_t gpu) {
  double promised = 0, left = 1;
  const auto ceiling = [](const GangOnGpu& stake) { return static_cast<double>(stake.ceiling_ppm) / 1e6; };
  const auto weight = [](const GangOnGpu& stake) {
    return static_cast<double>(std::max<std::int64_t>(1, stake.weight));
  };
  for (GangOnGpu& stake : seekers(gpu)) {
    stake.part = std::min(static_cast<double>(stake.guarantee_ppm) / 1e6, ceiling(stake));
    stake.full = false;
    promised += stake.part;
  }
  for (GangOnGpu& stake : seekers(gpu)) {
    stake.part /= std::max(1.0, promised);
    left -= stake.part;
  }
  // Each round fills at least one, or is the last.
  while (left > 1e-9) {
    double weights = 0, level = left;
    for (const GangOnGpu& stake : seekers(gpu)) weights += stake.full ? 0 : weight(stake);
    if (weights <= 0) return;
    for (const GangOnGpu& stake : seekers(gpu))
      if (!stake.full) level = std::min(level, std::max(0.0, ceiling(stake) - stake.part) * weights / weight(stake));
    for (GangOnGpu& stake : seekers(gpu)) {
      if (stake.full) continue;
      stake.part += level * weight(stake) / weights;
      stake.full = ceiling(stake) - stake.part < 1e-9;
    }
    left -= std::max(level, 1e-6);
  }
}

// Returns whether its next kernel must wait for the fluid. Work in flight counts as used. Work that exceeds its
// estimate may be waiting for the launch that would be held back.
bool Arbiter::is_early(const GangOnGpu& stake, const ShareOnGpu& place, std::int64_t now_ns) {
  if (place.use.kernel_ns < kLongKernelNs || stake.gang->is_together(now_ns)) return false;
  if (place.overdue() && now_ns - place.overdue_since_ns > kMaxPatienceNs + place.expected_ns) return false;
  return stake.ahead_ns + place.use.in_flight_ns > kEarlyNs && now_ns - stake.sought_ns < kSoughtNs;
}

// Returns when that wait will be over.
std::int64_t Arbiter::on_pace_ns(const GangOnGpu& stake, const ShareOnGpu& place, std::int64_t now_ns) {
  const std::int64_t ahead_ns = stake.ahead_ns + place.use.in_flight_ns - kEarlyNs;
  if (ahead_ns <= 0) return now_ns;
  return stake.part < 1e-6 ? kNever : now_ns + static_cast<std::int64_t>(static_cast<double>(ahead_ns) / stake.part);
}

}  // namespace headgate::schedule
