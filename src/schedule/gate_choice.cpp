// Chooses each gate's state, once the holder of each GPU is known.
#include <algorithm>

#include "schedule/arbiter.hpp"

namespace headgate::schedule {

void Arbiter::set_gates(std::int64_t now_ns) {
  for (Gpu& gpu : gpus_) gpu.kept_out = 0;
  share_gaps(now_ns);
  for (ShareId id = 0; id < shares_.size(); ++id) {
    for (ShareOnGpu& place : shares_[id].places) {
      const GateDecision standing = standing_of(shares_[id], place, now_ns);
      if (standing.gate == Gate::queued) ++gpus_[place.terms.gpu].kept_out;
      // A batch's length is a hint: a small change is not worth a store that limiters must look at.
      const bool same_batch =
          standing.batch_ns * 4 >= place.batch_ns * 3 && standing.batch_ns * 3 <= place.batch_ns * 4;
      if (standing.gate == place.gate && (standing.gate != Gate::batch || same_batch)) continue;
      if (is_closed(standing.gate) && !is_closed(place.gate)) place.shut_ns = now_ns;
      place.gate = standing.gate;
      place.batch_ns = standing.batch_ns;
      changes_.push_back({id, place.terms.gpu, standing.gate, standing.batch_ns});
    }
  }
}

Arbiter::GateDecision Arbiter::standing_of(const Share& share, const ShareOnGpu& place, std::int64_t now_ns) const {
  const Gpu& gpu = gpus_[place.terms.gpu];
  if (gpu.policy == Policy::off) return {Gate::open, 0};
  if (place.terms.priority_class == Class::latency) return {Gate::open_notify, 0};
  const bool protect = gpu.protected_until_ns > now_ns;
  if (gpu.holder == share.gang && share.gang->drain_end_ns != 0)
    return is_awaited(*share.gang, place, now_ns) ? GateDecision{Gate::batch, ahead_ns(*share.gang)}
                                                  : closed(place, now_ns);
  if (place.early) return {Gate::shut, 0};
  if (gpu.holder == share.gang) {
    // Two kernels in a row would make it wait for two.
    if (protect && tail_of_others(share, place.terms.gpu, now_ns)) return closed(place, now_ns);
    if (protect) return {Gate::batch, std::clamp(place.use.kernel_ns, kProtectedBatchNs, kLongestLeaseNs)};
    return {Gate::open, 0};
  }
  if (gpu.holder == nullptr && gpu.wanted_by == 0) return {Gate::open_notify, 0};
  if (place.engaged(now_ns)) {
    const std::int64_t fill_ns = filler_portion_ns(place, gpu);
    if (fill_ns > 0) return {Gate::batch, fill_ns};
    if (!protect && is_next(*share.gang, place.terms.gpu, now_ns)) return {Gate::batch, 1};
    if (is_awaited(*share.gang, place, now_ns)) return {Gate::batch, 1};
  }
  return closed(place, now_ns);
}

// A share that was seen to want the GPU is observed again before the holder's turn ends. Any other share must ring: it
// may have started since it was observed.
Arbiter::GateDecision Arbiter::closed(const ShareOnGpu& place, std::int64_t now_ns) {
  return {place.engaged(now_ns) ? Gate::queued : Gate::shut, 0};
}

bool Arbiter::tail_of_others(const Share& mine, std::uint32_t gpu, std::int64_t now_ns) const {
  for (const Share& share : shares_)
    for (const ShareOnGpu& place : share.places)
      if (place.terms.gpu == gpu && share.gang != mine.gang && place.terms.priority_class != Class::latency &&
          place.use.in_flight_ns > 0 && (!is_closed(place.gate) || now_ns - place.shut_ns < kLongestLeaseNs))
        return true;
  return false;
}

// Divides the holder's pauses among shares with kernels that fit.
void Arbiter::share_gaps(std::int64_t now_ns) {
  for (std::uint32_t g = 0; g < gpu_count_; ++g) {
    Gpu& gpu = gpus_[g];
    gpu.gap_ns = 0;
    gpu.fillers = 0;
    if (gpu.holder == nullptr || gpu.wanted_by < 2 || gpu.holder->drain_end_ns != 0) continue;
    // The holder's shares pause when none of them works.
    std::int64_t gap_ns = kNever;
    for (const ShareId id : gpu.holder->members)
      for (const ShareOnGpu& place : shares_[id].places)
        if (place.terms.gpu == g && place.engaged(now_ns)) gap_ns = std::min(gap_ns, place.gap_ns);
    gpu.gap_ns = gap_ns == kNever ? kGapOfNone : gap_ns;
    if (gpu.gap_ns == 0) continue;
    for (const Share& share : shares_)
      for (const ShareOnGpu& place : share.places)
        if (share.gang != gpu.holder && place.terms.gpu == g && place.engaged(now_ns) && fits_gap(place, gpu))
          ++gpu.fillers;
  }
}

bool Arbiter::fits_gap(const ShareOnGpu& place, const Gpu& gpu) {
  return place.use.kernel_ns > 0 && place.use.kernel_ns <= gpu.gap_ns;
}

std::int64_t Arbiter::filler_portion_ns(const ShareOnGpu& place, const Gpu& gpu) {
  if (gpu.gap_ns == 0 || gpu.fillers == 0 || !fits_gap(place, gpu)) return 0;
  return std::max(place.use.kernel_ns, kGapsInAPortion * gpu.gap_ns / gpu.fillers / place.use.processes);
}

// Shortly before a turn ends, the next gang may send one kernel, so that its wake-up costs no GPU time.
bool Arbiter::is_next(const Gang& gang, std::uint32_t gpu, std::int64_t now_ns) const {
  const Gang* const holder = gpus_[gpu].holder;
  if (holder == nullptr || holder->stake(gpu)->lease_end_ns - now_ns > kOverlapNs || gang.is_together(now_ns))
    return false;
  // What the holder has sent comes first.
  if (holder->stakes.size() == 1 && ahead_ns(*holder) > kTailLeadNs + kOverlapNs && is_always_busy(gang, gpu, now_ns))
    return false;
  for (const Unit& each : order_) {
    if ((each.gpus >> gpu & 1) == 0) continue;
    if (each.gang == holder) return false;  // the holder will be its own successor
    return each.gang == &gang;
  }
  return false;
}

// Returns the most that any share of the gang has in flight: this much may be missing elsewhere.
std::int64_t Arbiter::ahead_ns(const Gang& gang) const {
  std::int64_t most_ns = 1;
  for (const ShareId id : gang.members)
    for (const ShareOnGpu& place : shares_[id].places) most_ns = std::max(most_ns, place.use.in_flight_ns);
  return most_ns;
}

// Returns whether its work on another GPU takes longer than it should, and so may wait for the launch at this gate.
// Next to another's turn that work has half of the time slices: it is late only after twice its time. If ranks on its
// GPUs were not seen to wait for each other, it may just be longer than estimated.
bool Arbiter::is_awaited(const Gang& gang, const ShareOnGpu& mine, std::int64_t now_ns) const {
  if (gang.stakes.size() < 2 || !mine.use.wanting || mine.use.in_flight_ns > 0) return false;
  const bool together = gang.is_together(now_ns);
  for (const ShareId id : gang.members)
    for (const ShareOnGpu& place : shares_[id].places) {
      const std::uint32_t gpu = place.terms.gpu;
      if (gpu == mine.terms.gpu || !place.overdue()) continue;
      const bool alone = gpus_[gpu].holder == &gang;
      const std::int64_t patience_ns = together ? kOverdueNs + (alone ? 0 : std::min(place.expected_ns, kMaxPatienceNs))
                                                : kUnseenRankNs + 2 * place.expected_ns;
      if (now_ns - place.overdue_since_ns >= patience_ns) return true;
    }
  return false;
}

}  // namespace headgate::schedule
