// Chooses each gate's state, once the holder of each GPU is known.
#include <algorithm>

#include "schedule/arbiter.hpp"

namespace headgate::schedule {
namespace {

bool fits(const ShareOnGpu& place, std::int64_t gap_ns) {
  return place.use.kernel_ns > 0 && place.use.kernel_ns <= gap_ns;
}

}  // namespace

void Arbiter::set_gates(std::int64_t now_ns) {
  for (Gpu& gpu : gpus_) gpu.kept_out = 0;
  share_gaps(now_ns);
  for (GangOnGpu& stake : stakes())
    for (ShareOnGpu& place : stake.places) {
      const Change now = gate_of(stake, place, now_ns);
      if (now.gate == Gate::queued && place.engaged(now_ns)) ++gpus_[stake.gpu].kept_out;
      // A batch's length is a hint: a small change is not worth a store that limiters must look at.
      const bool same_batch = now.batch_ns * 4 >= place.batch_ns * 3 && now.batch_ns * 3 <= place.batch_ns * 4;
      if (now.gate == place.gate && same_batch) continue;
      if (is_closed(now.gate) && !is_closed(place.gate)) place.shut_ns = now_ns;
      place.gate = now.gate;
      place.batch_ns = now.batch_ns;
      changes_.push_back(now);
    }
}

Change Arbiter::gate_of(const GangOnGpu& stake, const ShareOnGpu& place, std::int64_t now_ns) const {
  const auto is = [&](Gate gate, std::int64_t batch_ns = 0) { return Change{place.share, stake.gpu, gate, batch_ns}; };
  const Gpu& gpu = gpus_[stake.gpu];
  if (gpu.policy == Policy::off) return is(Gate::open);
  if (place.terms.priority_class == Class::latency) return is(Gate::open_notify);
  // A share that was seen to want the GPU is observed again before the holder's turn ends. Any other share must ring:
  // it may have started since it was observed.
  const bool engaged = place.engaged(now_ns), rests = place.rests && place.is_among_busy;
  const Change closed = is(engaged || rests ? Gate::queued : Gate::shut);
  const bool holds = gpu.holder == stake.gang, protect = gpu.protected_until_ns > now_ns;
  if (holds && stake.gang->drain_end_ns != 0)
    return is_awaited(stake, place, now_ns) ? is(Gate::batch, std::max<std::int64_t>(1, stake.gang->in_flight_ns()))
                                            : is(closed.gate, kEndingNs);
  if (place.early) return is(Gate::shut, holds ? kEndingNs : 0);
  if (holds) {
    // Two kernels in a row would make it wait for two.
    if (protect && tail_of_others(stake, now_ns)) return closed;
    if (protect) return is(Gate::batch, std::clamp(place.use.kernel_ns, kProtectedBatchNs, kLongestLeaseNs));
    Change open = is(Gate::open);
    open.opens_ns = std::min(gpu.hand_over_ns, now_ns);
    return open;
  }
  if (gpu.holder == nullptr && gpu.wanted_by == 0) return is(rests ? Gate::open : Gate::open_notify);
  if (!engaged) return closed;
  if (gpu.fillers > 0 && fits(place, gpu.gap_ns))
    return is(Gate::batch,
              std::max(place.use.kernel_ns, kGapsInAPortion * gpu.gap_ns / gpu.fillers / place.use.processes));
  if ((!protect && is_next(stake, now_ns)) || is_awaited(stake, place, now_ns)) return is(Gate::batch, 1);
  return closed;
}

bool Arbiter::tail_of_others(const GangOnGpu& mine, std::int64_t now_ns) const {
  for (const GangOnGpu& stake : stakes()) {
    if (stake.gpu != mine.gpu || stake.gang == mine.gang) continue;
    for (const ShareOnGpu& place : stake.places)
      if (place.terms.priority_class != Class::latency && place.use.in_flight_ns > 0 &&
          (!is_closed(place.gate) || now_ns - place.shut_ns < kLongestLeaseNs))
        return true;
  }
  return false;
}

// Divides the holder's pauses among shares with kernels that fit.
void Arbiter::share_gaps(std::int64_t now_ns) {
  for (Gpu& gpu : gpus_) gpu.gap_ns = gpu.fillers = 0;
  for (std::uint32_t g = 0; g < gpu_count_; ++g) {
    Gpu& gpu = gpus_[g];
    if (gpu.holder == nullptr || gpu.wanted_by < 2 || gpu.holder->drain_end_ns != 0) continue;
    // The holder's shares pause when none of them works.
    std::int64_t gap_ns = kNever;
    for (const ShareOnGpu& place : gpu.holder->stake(g)->places)
      if (place.engaged(now_ns)) gap_ns = std::min(gap_ns, place.gap_ns);
    gpu.gap_ns = gap_ns == kNever ? kGapOfNone : gap_ns;
    for (const GangOnGpu& stake : stakes()) {
      if (stake.gpu != g || stake.gang == gpu.holder) continue;
      for (const ShareOnGpu& place : stake.places) gpu.fillers += place.engaged(now_ns) && fits(place, gpu.gap_ns);
    }
  }
}

// Shortly before a turn ends, or the holder's work before a long pause, the next gang may send one kernel, so that its
// wake-up costs no GPU time.
bool Arbiter::is_next(const GangOnGpu& stake, std::int64_t now_ns) const {
  Gang* const holder = gpus_[stake.gpu].holder;
  if (holder == nullptr || stake.gang->is_together(now_ns)) return false;
  const GangOnGpu& held = *holder->stake(stake.gpu);
  const bool pauses = held.pauses_soon();
  if (!pauses && held.lease_end_ns - now_ns > kOverlapNs) return false;
  // What the holder has sent comes first.
  if (holder->stakes.size() == 1 && holder->in_flight_ns() > kTailLeadNs + kOverlapNs && stake.is_always_busy(now_ns))
    return false;
  // If the holder is first, it will be its own successor.
  for (const Unit& next : order_)
    if ((next.gpus & stake.bit()) != 0 && !(pauses && next.gang == holder)) return next.gang == stake.gang;
  return false;
}

// Returns how late work of a gang on several GPUs has to be before it may wait for a launch at another gate. Next to
// another's turn it has half of the time slices: it is late only after twice its time. If ranks on its GPUs were not seen
// to wait for each other, it may just be longer than estimated.
std::int64_t Arbiter::rank_patience_ns(const GangOnGpu& stake, const ShareOnGpu& place, std::int64_t now_ns) const {
  if (!stake.gang->is_together(now_ns)) return kUnseenRankNs + 2 * place.expected_ns;
  const bool alone = gpus_[stake.gpu].holder == stake.gang;
  return kOverdueNs + (alone ? 0 : std::min(place.expected_ns, kMaxPatienceNs));
}

// Returns whether its work on another GPU takes longer than it should, and so may wait for the launch at this gate.
bool Arbiter::is_awaited(const GangOnGpu& stake, const ShareOnGpu& mine, std::int64_t now_ns) const {
  const Gang& gang = *stake.gang;
  if (gang.stakes.size() < 2 || !mine.use.wanting || mine.use.in_flight_ns > 0) return false;
  const bool together = gang.is_together(now_ns);
  for (const GangOnGpu& other : gang.stakes)
    for (const ShareOnGpu& place : other.places) {
      if (other.gpu == stake.gpu || !place.overdue() || (!together && place.use.kernel_ns != 0 && !place.outlasts()))
        continue;
      if (now_ns - place.overdue_since_ns >= rank_patience_ns(other, place, now_ns)) return true;
    }
  return false;
}

}  // namespace headgate::schedule
