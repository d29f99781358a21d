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
    claims_.clear();
    bool has_long = false;
    for (const auto& gang : gangs_)
      for (GangOnGpu& stake : gang->stakes) {
        if (stake.gpu != g || !stake.seeks()) continue;
        has_long |= stake.has_long;
        claims_.push_back({.stake = &stake, .part = 0, .full = false});
      }
    if (!has_long || claims_.size() < 2 || gpus_[g].policy != Policy::fair) {
      // Time without another share that wants the GPU costs nothing, and earlier time is forgotten as time passes:
      // another share may be visible only between two of its kernels.
      for (const Claim& claim : claims_)
        claim.stake->ahead_ns = std::max<std::int64_t>(0, claim.stake->ahead_ns - passed_ns);
      continue;
    }
    fill(claims_);
    for (const Claim& claim : claims_) {
      GangOnGpu& stake = *claim.stake;
      stake.part = claim.part;
      stake.sought_ns = now_ns;
      stake.ahead_ns -= static_cast<std::int64_t>(claim.part * static_cast<double>(passed_ns));
      stake.ahead_ns = std::clamp(stake.ahead_ns, -std::max(kWindowNs, stake.long_ns), kMaxAheadNs);
    }
  }
  for (const auto& gang : gangs_)
    for (const ShareId id : gang->members)
      for (ShareOnGpu& place : shares_[id].places)
        place.early = is_early(*gang, *gang->stake(place.terms.gpu), place, now_ns);
}

// Each claim gets its promise; the rest is distributed by weight, up to the ceilings. If promises exceed the GPU, all
// shrink by the same factor.
void Arbiter::fill(std::span<Claim> claims) {
  double promised = 0, left = 1;
  const auto ceiling = [](const Claim& claim) { return static_cast<double>(claim.stake->ceiling_ppm) / 1e6; };
  for (Claim& claim : claims) {
    claim.part = std::min(static_cast<double>(claim.stake->guarantee_ppm) / 1e6, ceiling(claim));
    promised += claim.part;
  }
  for (Claim& claim : claims) {
    if (promised > 1) claim.part /= promised;
    left -= claim.part;
  }
  // Each round fills at least one claim, or is the last.
  while (left > 1e-9) {
    double weights = 0, level = left;
    for (const Claim& claim : claims) weights += claim.full ? 0 : static_cast<double>(claim.stake->weight);
    if (weights <= 0) return;
    for (const Claim& claim : claims)
      if (!claim.full)
        level = std::min(level, std::max(0.0, ceiling(claim) - claim.part) * weights /
                                    std::max(1.0, static_cast<double>(claim.stake->weight)));
    for (Claim& claim : claims) {
      if (claim.full) continue;
      claim.part += level * static_cast<double>(claim.stake->weight) / weights;
      claim.full = ceiling(claim) - claim.part < 1e-9;
    }
    left -= std::max(level, 1e-6);
  }
}

// Returns whether its next kernel must wait for the fluid. Work in flight counts as used. Work that exceeds its
// estimate may be waiting for the launch that would be held back.
bool Arbiter::is_early(const Gang& gang, const GangOnGpu& stake, const ShareOnGpu& place, std::int64_t now_ns) const {
  if (place.use.kernel_ns < kLongKernelNs || gang.is_together(now_ns)) return false;
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
