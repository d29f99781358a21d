// How each gate stands, once it is known who holds which GPU.
#include <algorithm>

#include "schedule/arbiter.hpp"

namespace headgate::schedule {

void Arbiter::set_gates(std::int64_t now_ns) {
  for (Gpu& gpu : gpus_) gpu.kept_out = 0;
  share_gaps(now_ns);
  for (ShareId id = 0; id < shares_.size(); ++id) {
    for (Place& place : shares_[id].places) {
      const Standing standing = standing_of(shares_[id], place, now_ns);
      if (standing.gate == Gate::queued) ++gpus_[place.terms.gpu].kept_out;
      // A portion's length is a hint: small moves of it are not worth a store that a limiter has to look at.
      const bool same_portion =
          standing.portion_ns * 4 >= place.portion_ns * 3 && standing.portion_ns * 3 <= place.portion_ns * 4;
      if (standing.gate == place.gate && (standing.gate != Gate::portion || same_portion)) continue;
      if (is_closed(standing.gate) && !is_closed(place.gate)) place.shut_ns = now_ns;
      place.gate = standing.gate;
      place.portion_ns = standing.portion_ns;
      changes_.push_back({id, place.terms.gpu, standing.gate, standing.portion_ns});
    }
  }
}

Arbiter::Standing Arbiter::standing_of(const Share& share, const Place& place, std::int64_t now_ns) const {
  const Gpu& gpu = gpus_[place.terms.gpu];
  if (gpu.policy == Policy::off) return {Gate::open, 0};
  if (place.terms.priority_class == Class::latency) return {Gate::tell, 0};
  const bool protect = gpu.protected_until_ns > now_ns;
  if (gpu.holder == share.gang && share.gang->drain_end_ns != 0)
    return is_awaited(*share.gang, place, now_ns) ? Standing{Gate::portion, ahead_ns(*share.gang)}
                                                  : closed(place, now_ns);
  if (gpu.holder == share.gang) {
    // Two kernels in a row would be two that it has to wait for.
    if (protect && tail_of_others(share, place.terms.gpu, now_ns)) return closed(place, now_ns);
    if (protect) return {Gate::portion, std::clamp(place.use.kernel_ns, kProtectedPortionNs, kLongestLeaseNs)};
    return {Gate::open, 0};
  }
  if (gpu.holder == nullptr && gpu.wanted_by == 0) return {Gate::tell, 0};
  if (place.engaged(now_ns)) {
    const std::int64_t fill_ns = filler_portion_ns(place, gpu);
    if (fill_ns > 0) return {Gate::portion, fill_ns};
    if (!protect && is_next(*share.gang, gpu, now_ns)) return {Gate::portion, 1};
    if (is_awaited(*share.gang, place, now_ns)) return {Gate::portion, 1};
  }
  return closed(place, now_ns);
}

// Whoever was seen to want is looked at again before the turn of who has the GPU ends. Anybody else has to say so: it may have
// begun since it was looked at.
Arbiter::Standing Arbiter::closed(const Place& place, std::int64_t now_ns) {
  return {place.engaged(now_ns) ? Gate::queued : Gate::shut, 0};
}

bool Arbiter::tail_of_others(const Share& mine, std::uint32_t gpu, std::int64_t now_ns) const {
  for (const Share& share : shares_)
    for (const Place& place : share.places)
      if (place.terms.gpu == gpu && share.gang != mine.gang && place.terms.priority_class != Class::latency &&
          place.use.in_flight_ns > 0 && (!is_closed(place.gate) || now_ns - place.shut_ns < kLongestLeaseNs))
        return true;
  return false;
}

// The holder's pauses are divided among those whose kernels fit.
void Arbiter::share_gaps(std::int64_t now_ns) {
  for (std::uint32_t g = 0; g < gpu_count_; ++g) {
    Gpu& gpu = gpus_[g];
    gpu.gap_ns = 0;
    gpu.fillers = 0;
    if (gpu.holder == nullptr || gpu.wanted_by < 2) continue;
    // All of the holder's shares together have a pause when none of them works.
    std::int64_t gap_ns = kNever;
    for (const ShareId id : gpu.holder->members)
      for (const Place& place : shares_[id].places)
        if (place.terms.gpu == g && place.engaged(now_ns)) gap_ns = std::min(gap_ns, place.gap_ns);
    gpu.gap_ns = gap_ns == kNever ? kGapOfNone : gap_ns;
    if (gpu.gap_ns == 0) continue;
    for (const Share& share : shares_)
      for (const Place& place : share.places)
        if (share.gang != gpu.holder && place.terms.gpu == g && place.engaged(now_ns) && fits_gap(place, gpu))
          ++gpu.fillers;
  }
}

bool Arbiter::fits_gap(const Place& place, const Gpu& gpu) {
  return place.use.kernel_ns > 0 && place.use.kernel_ns <= gpu.gap_ns;
}

std::int64_t Arbiter::filler_portion_ns(const Place& place, const Gpu& gpu) {
  if (gpu.gap_ns == 0 || gpu.fillers == 0 || !fits_gap(place, gpu)) return 0;
  return std::max(place.use.kernel_ns, kGapsInAPortion * gpu.gap_ns / gpu.fillers / place.use.processes);
}

// Shortly before a turn ends, whoever comes next may send one kernel, so that its wake-up costs no GPU time.
bool Arbiter::is_next(const Gang& gang, const Gpu& gpu, std::int64_t now_ns) const {
  if (gpu.holder == nullptr || gpu.holder->lease_end_ns - now_ns > kOverlapNs || gang.stakes.size() > 1) return false;
  for (const Gang* const each : order_) {
    if (each == gpu.holder) {
      if (each->wanted != 0) return false;  // it will be its own successor
      continue;
    }
    if ((each->wanted & gpu.holder->holds) != 0) return each == &gang;
  }
  return false;
}

// How much those that are ahead have in flight: so much may be missing elsewhere.
std::int64_t Arbiter::ahead_ns(const Gang& gang) const {
  std::int64_t most_ns = 1;
  for (const ShareId id : gang.members)
    for (const Place& place : shares_[id].places) most_ns = std::max(most_ns, place.use.in_flight_ns);
  return most_ns;
}

// Its work on another GPU goes on for longer than it should, and may be waiting for the launch that stands at this gate. Beside
// another's turn it has half of the GPU's slices: it is late only after twice its time.
bool Arbiter::is_awaited(const Gang& gang, const Place& mine, std::int64_t now_ns) const {
  if (gang.stakes.size() < 2 || !mine.use.wanting || mine.use.in_flight_ns > 0) return false;
  for (const ShareId id : gang.members)
    for (const Place& place : shares_[id].places)
      if (place.terms.gpu != mine.terms.gpu && place.overdue() &&
          now_ns - place.overdue_since_ns >=
              kOverdueNs + (gang.holds != 0 ? 0 : std::min(place.expected_ns, kMostPatienceNs)))
        return true;
  return false;
}

}  // namespace headgate::schedule
