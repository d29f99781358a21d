// When the arbiter looks again. Each look costs a wake-up, so it looks no earlier than something can have changed.
#include <algorithm>
#include <bit>

#include "schedule/arbiter.hpp"

namespace headgate::schedule {

// Looks often while the holder waits for its predecessor's last kernel.
std::int64_t Arbiter::protected_look_ns(std::uint32_t gpu, std::int64_t now_ns) const {
  if (Gang* const holder = gpus_[gpu].holder)
    for (const ShareOnGpu& place : holder->stake(gpu)->places)
      if (is_closed(place.gate) && place.engaged(now_ns)) return now_ns + kLookNs;
  return gpus_[gpu].protected_until_ns;
}

void Arbiter::pay_for_told_looks(std::int64_t now_ns) {
  for (Gpu& gpu : gpus_) {
    if (now_ns >= gpu.told_look_ns) gpu.told_paid_ns = std::max(gpu.told_paid_ns, now_ns - kToldCreditNs) + kToldLookNs;
    gpu.told_look_ns = kNever;
  }
}

// Returns whether the unit's successor will wait until its last kernels have almost ended.
bool Arbiter::successor_waits(const Unit& unit, std::int64_t now_ns) const {
  const Unit* const next = next_other(unit);
  return next != nullptr && next->gang->stake(unit.first().gpu)->is_always_busy(now_ns);
}

// Returns whether the unit will follow itself at the end of its lease, as far as is known now.
bool Arbiter::goes_on(const Unit& unit, std::int64_t now_ns) const {
  const Unit* const next = next_other(unit);
  if (!unit.is_single() || unit.promised || next == nullptr || next->promised || next->gang->rank != unit.gang->rank)
    return false;
  return unit.tag_ns + unit.first().price_ns(unit.lease_end_ns() - now_ns) < next->tag_ns;
}

// Returns when the unit's launches at shut gates could next be awaited (is_awaited()). Ranks that were seen to wait for
// each other are looked at often. Other work has to be late first.
std::int64_t Arbiter::rank_look_ns(const Unit& unit, std::int64_t now_ns) const {
  if (unit.gang->is_together(now_ns)) return now_ns + 2 * kOverdueNs;
  std::int64_t at_ns = kNever;
  for (const GangOnGpu& stake : unit.gang->stakes)
    for (const ShareOnGpu& place : stake.places) {
      if ((unit.gpus & stake.bit()) != 0 || place.use.in_flight_ns == 0) continue;
      const std::int64_t patience_ns = rank_patience_ns(stake, place, now_ns);
      const std::int64_t outlasts_ns = now_ns + (place.use.kernel_ns == 0 ? 0 : place.outlasts_in_ns());
      // The look that finds it late begins its patience.
      const std::int64_t awaits_ns = place.overdue()
                                         ? std::max(place.overdue_since_ns + patience_ns, outlasts_ns)
                                         : std::max(now_ns + place.use.in_flight_ns, outlasts_ns - patience_ns);
      at_ns = std::min(at_ns, std::max(now_ns + kUnseenRankLookNs, awaits_ns));
    }
  return at_ns;
}

std::int64_t Arbiter::wake_at_ns(std::int64_t now_ns) {
  std::int64_t at_ns = kNever;
  const auto by = [&](std::int64_t when_ns) { at_ns = std::min(at_ns, std::max(when_ns, now_ns + kMinWakeNs)); };
  const auto by_its_word = [&](std::uint32_t gpu, std::int64_t when_ns) {
    const std::int64_t paid_ns = std::max(when_ns, gpus_[gpu].told_paid_ns);
    gpus_[gpu].told_look_ns = std::min(gpus_[gpu].told_look_ns, paid_ns);
    by(paid_ns);
  };
  for (const GangOnGpu& stake : stakes())
    for (const ShareOnGpu& place : stake.places) {
      // While it rests it does not ring: there is a look at the end of another's turn, or of its rest.
      const bool is_quiet =
          place.rests && place.is_among_busy && (place.gate == Gate::queued || place.gate == Gate::open);
      if (is_quiet ? gpus_[stake.gpu].wanted_by > 1 : !place.use.wanting) continue;
      if (is_quiet || ((place.throttled() || place.rests) && place.gate != Gate::open))
        by_its_word(stake.gpu, now_ns + std::min(kRestLookNs, place.rested_in_ns()));
      if (place.early) by_its_word(stake.gpu, std::min(now_ns + kRestLookNs, on_pace_ns(stake, place, now_ns)));
    }
  // Also for a gang that wants no more, and so is not in the order.
  for (const auto& gang : gangs_)
    if (gang->drain_end_ns != 0)
      for (const GangOnGpu& stake : Unit{.gang = gang.get(), .gpus = gang->holds}.stakes())
        if (stake.lease_end_ns > now_ns) by(stake.lease_end_ns);
  for (const Unit& unit : order_) {
    if (!is_contended(unit)) continue;
    const bool holds = (unit.gang->holds & unit.gpus) != 0;
    const bool keeps_out =
        std::ranges::any_of(unit.stakes(), [this](const GangOnGpu& stake) { return gpus_[stake.gpu].kept_out > 0; });
    if (holds && (keeps_out || unit.first().pauses_soon())) {
      // A share that always has work ready keeps enough in flight to hide the handover. The end of a lease is early
      // enough to notice that it has none left. With little in flight the successor's first kernel comes before that.
      bool steady = true, pauses = true, hides = unit.gang->stakes.size() == 1 && successor_waits(unit, now_ns);
      std::int64_t kernel_ns = kNever, idle_ns = 0, most_ns = 0;
      for (const GangOnGpu& stake : unit.stakes())
        for (const ShareOnGpu& place : stake.places) {
          if (!place.engaged(now_ns)) continue;
          steady &= place.steady(now_ns) && now_ns + place.use.in_flight_ns + place.allowed_ns() > unit.lease_end_ns();
          pauses &= place.gap_ns > 0 && now_ns - place.throttled_ns >= kSteadyNs;
          kernel_ns = std::min(kernel_ns, place.use.kernel_ns);
          most_ns = std::max(most_ns, place.expected_ns);
          // The earliest time at which it is known to have no work.
          idle_ns =
              std::max(idle_ns, std::max(place.active_ns, now_ns) + place.use.in_flight_ns + place.patience_ns(now_ns));
        }
      hides &= most_ns > kTailLeadNs + kOverlapNs;
      const std::int64_t lease_end_ns = unit.lease_end_ns();
      hides |= gpus_[unit.first().gpu].hand_over_ns == lease_end_ns;
      bool needs_lead = !steady || (!hides && kernel_ns < kOverlapNs);
      // One with short pauses that has worked for so long may do so for as long again without a look, also over the end
      // of a lease that it follows itself.
      if (!steady && pauses) {
        idle_ns = std::max(idle_ns, now_ns + (now_ns - unit.first().had_from_ns));
        needs_lead = !goes_on(unit, now_ns);
      }
      const std::int64_t early_ns = lease_end_ns - (needs_lead ? kOverlapNs : 0);
      const std::int64_t ends_ns = early_ns > now_ns ? early_ns : lease_end_ns;
      by(ends_ns);
      // Of short kernels a whole turn is not worth a look.
      const std::int64_t unseen_ns = is_short_kernel(kernel_ns) ? kBusyLeaseNs : kIdleLookNs;
      if (idle_ns > now_ns && !(steady && idle_ns + unseen_ns > ends_ns))
        by_its_word(static_cast<std::uint32_t>(std::countr_zero(unit.gpus)), idle_ns);
    } else if (holds) {
      by(unit.lease_end_ns());
    } else if (unit.gang->stakes.size() > 1) {
      by(rank_look_ns(unit, now_ns));
    }
    for (const GangOnGpu& stake : unit.stakes()) {
      if (stake.first != stake.last) by(stake.oldest_turn().to_ns + 4 * kTurnSettlesNs);
      if (gpus_[stake.gpu].protected_until_ns > now_ns) by(protected_look_ns(stake.gpu, now_ns));
    }
  }
  return at_ns;
}

}  // namespace headgate::schedule
