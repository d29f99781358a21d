// Which gangs want which GPUs, and the GPUs' clocks, from which they start when they do.
#include <algorithm>
#include <utility>

#include "schedule/arbiter.hpp"

namespace headgate::schedule {

void Arbiter::refresh(std::int64_t now_ns) {
  const std::int64_t since_ns = std::max<std::int64_t>(0, now_ns - std::exchange(refreshed_ns_, now_ns));
  const std::int64_t passed_ns = std::min(since_ns, kWindowNs);
  for (GangOnGpu& stake : stakes()) stake.earn(passed_ns, is_sought(stake));
  keep_pace(now_ns, passed_ns);
  for (const auto& gang : gangs_) look_for_wants(*gang, now_ns, since_ns);
  for (Gpu& gpu : gpus_) gpu.wanted_by = gpu.sought_by = gpu.short_ready = gpu.longer = gpu.longer_wait = 0;
  for (GangOnGpu& stake : stakes()) {
    Gpu& gpu = gpus_[stake.gpu];
    gpu.wanted_by += stake.wants;
    gpu.sought_by += stake.seeks();
    gpu.short_ready += stake.seeks() && stake.has_short_ready(now_ns);
    const bool longer = stake.seeks() && stake.has_longer();
    gpu.longer += longer;
    gpu.longer_wait += longer && stake.in_flight_ns() == 0;
    stake.assume(now_ns);
  }
  for (GangOnGpu& stake : stakes()) {
    const Gpu& gpu = gpus_[stake.gpu];
    for (ShareOnGpu& place : stake.places) {
      place.is_among_busy = gpu.all_short_but(gpu.longer_wait);
      place.rests_are_no_pauses = gpu.all_short_but(gpu.longer);
    }
  }
  advance_clocks();
  for (GangOnGpu& stake : stakes()) {
    if (!stake.wants && stake.wanted_before) stake.clock_left_ns = clock_ns(stake);
    if (stake.wakes || (stake.wants && stake.has_gaps)) keep_distance(stake);
  }
}

// A gang that did not want the GPU has not saved up credit. Over a pause it keeps its distance from the clock: what
// turns gave it beyond its part, at most one turn, or by how much it was behind, 100 ms at most.
void Arbiter::keep_distance(GangOnGpu& stake) {
  const std::int64_t clock_ns = this->clock_ns(stake), turn_ns = stake.price_ns(kLongestLeaseNs);
  std::int64_t least_ns = clock_ns - stake.price_ns(stake.rested ? kRestCreditNs : kGapCreditNs);
  if (stake.slept && !stake.rested)
    least_ns =
        stake.clock_left_ns
            ? std::clamp(stake.virtual_ns - *stake.clock_left_ns, -stake.price_ns(kRestCreditNs), turn_ns) + clock_ns
            : clock_ns - turn_ns;
  stake.virtual_ns = std::max(stake.virtual_ns, least_ns);
}

void Arbiter::look_for_wants(Gang& gang, std::int64_t now_ns, std::int64_t since_ns) {
  std::uint32_t rank = 0;
  bool engaged = false;
  for (GangOnGpu& stake : gang.stakes) {
    const Policy policy = gpus_[stake.gpu].policy;
    stake.wanted_before = std::exchange(stake.wants, false);
    stake.slept = now_ns - stake.engaged_ns > kSleepNs;
    stake.rested = std::exchange(stake.held_back, false);
    stake.has_gaps = false;
    stake.long_ns = stake.out_of_reach_ns = stake.ceiling_ppm = 0;
    if (policy == Policy::off) continue;
    stake.long_ns = stake.kernel_ns();
    for (ShareOnGpu& place : stake.places) {
      if (policy == Policy::priority) rank = std::max(rank, static_cast<std::uint32_t>(place.terms.priority_class));
      stake.ceiling_ppm = std::min<std::int64_t>(1'000'000, stake.ceiling_ppm + place.use.ceiling_ppm);
      stake.out_of_reach_ns = std::max(stake.out_of_reach_ns, place.use.kernel_ns * std::max(1u, place.use.processes));
      const bool engages = place.engaged(now_ns);
      const bool held_back =
          place.throttled() || ((place.rests || place.early) && (place.use.wanting || place.use.in_flight_ns > 0));
      stake.held_back |= held_back;
      place.count_wanted(now_ns, since_ns, engages || held_back || place.rests);
      stake.wants |= engages;
      stake.has_gaps |= engages && place.gap_ns > 0;
    }
    if (stake.wants) stake.engaged_ns = now_ns;
    engaged |= stake.wants;
  }
  if (rank != gang.rank) change_rank(gang, rank);
  for (GangOnGpu& stake : gang.stakes) {
    // Ranks held together want all GPUs that they used recently, except one on which their ceiling stops them.
    stake.wants |= engaged && gang.is_together(now_ns) && now_ns - stake.engaged_ns < kTogetherNs && !stake.held_back &&
                   gpus_[stake.gpu].policy != Policy::off;
    stake.wakes = stake.wants && !stake.wanted_before;
    if (!stake.wakes) continue;
    // That may be the end of a rest.
    for (ShareOnGpu& place : stake.places)
      if (!place.rests_are_no_pauses || now_ns - place.throttled_ns >= kSteadyNs) place.paused_ns = now_ns;
  }
}

// Each class has a separate clock, since classes do not wait for each other. With a common one, a lower class without
// GPU time would hold the clock back, and a gang joining the higher class would be behind those that have worked there.
// The gang keeps its position relative to the others.
void Arbiter::change_rank(Gang& gang, std::uint32_t rank) {
  const std::uint32_t before = std::exchange(gang.rank, std::min(rank, kRanks - 1));
  for (GangOnGpu& stake : gang.stakes) {
    const std::int64_t ahead_ns = stake.virtual_ns - gpus_[stake.gpu].least_ns[before];
    const std::int64_t virtual_ns = std::clamp(clock_ns(stake) + ahead_ns, -kMaxHeldNs, kMaxHeldNs);
    if (stake.clock_left_ns) *stake.clock_left_ns += virtual_ns - stake.virtual_ns;
    stake.virtual_ns = virtual_ns;
  }
}

// Advances each GPU's clock to the gang that is furthest behind there.
void Arbiter::advance_clocks() {
  struct Behind {
    std::int64_t least_ns = kNever, waking_ns = -kNever, resting_ns = kNever;
  };
  std::array<std::array<Behind, kRanks>, kMaxGpus> behind{};
  for (const GangOnGpu& stake : stakes()) {
    Behind& here = behind[stake.gpu][stake.gang->rank];
    if (!stake.wants && stake.held_back) here.resting_ns = std::min(here.resting_ns, stake.stands_ns());
    if (!stake.wants) continue;
    if (stake.wakes) here.waking_ns = std::max(here.waking_ns, stake.stands_ns());
    // A gang with gaps is behind for lack of work, so it does not measure what others had.
    else if (!stake.has_gaps) here.least_ns = std::min(here.least_ns, stake.stands_ns());
  }
  // If all appear to start at once, there was no look for long, and any of them may have worked behind an open gate:
  // they start level. A share resting at its ceiling also works, and is the measure if no other is.
  for (std::uint32_t g = 0; g < gpu_count_; ++g)
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      const auto& [least_ns, waking_ns, resting_ns] = behind[g][rank];
      std::int64_t& clock_ns = gpus_[g].least_ns[rank];
      clock_ns = std::max({clock_ns, least_ns != kNever ? least_ns : waking_ns,
                           least_ns == kNever && resting_ns != kNever ? resting_ns : -kNever});
    }
}

}  // namespace headgate::schedule
