// Whose turn it is on each GPU: the order of those that want it, by the tags of mClock (gang.hpp), and the leases of
// those that have it.
#include <algorithm>
#include <bit>
#include <tuple>

#include "schedule/arbiter.hpp"

namespace headgate::schedule {

bool Arbiter::is_contended(const Unit& unit) const {
  return std::ranges::any_of(unit.stakes(), [this](const GangOnGpu& stake) { return is_contended(stake); });
}

std::int64_t Arbiter::Unit::lease_end_ns() const {
  std::int64_t end_ns = kNever;
  for (const GangOnGpu& stake : stakes()) end_ns = std::min(end_ns, stake.lease_end_ns);
  return end_ns;
}

void Arbiter::Unit::end_lease_at(std::int64_t ns) const {
  for (GangOnGpu& stake : stakes()) stake.lease_end_ns = ns;
}

// Calls use() once for each unit that these GPUs of the gang are.
template <typename Use>
void Arbiter::each_unit(Gang& gang, std::uint32_t gpus, std::int64_t now_ns, Use use) {
  if (gpus == 0) return;
  if (gang.is_together(now_ns)) return use(Unit{.gang = &gang, .gpus = gpus});
  for (const GangOnGpu& stake : gang.stakes)
    if ((gpus & stake.bit()) != 0) use(Unit{.gang = &gang, .gpus = stake.bit()});
}

// Calls use() once for each unit held. `use` must neither take nor give any.
template <typename Use>
void Arbiter::each_held(std::int64_t now_ns, Use use) {
  for (const auto& gang : gangs_) each_unit(*gang, gang->holds, now_ns, use);
}

void Arbiter::order(std::int64_t now_ns) {
  order_.clear();
  for (const auto& gang : gangs_)
    each_unit(*gang, gang->wanted(), now_ns, [this](Unit unit) {
      set_tag(unit);
      order_.push_back(unit);
    });
  const auto key = [](const Unit& unit) {
    return std::tuple(-static_cast<int>(unit.gang->rank), !unit.promised, unit.tag_ns, unit.gang->members[0]);
  };
  std::ranges::sort(order_, std::less<>{}, key);
}

// With several GPUs, the one counts on which it is furthest from its turn, among those that another gang wants.
void Arbiter::set_tag(Unit& unit) {
  std::int64_t owed_ns = -kNever;
  unit.promised = true;
  unit.tag_ns = -kNever;
  for (const GangOnGpu& stake : unit.stakes()) {
    if (unit.gpus != stake.bit() && !is_contended(stake)) continue;
    unit.promised &= stake.is_promised();
    if (stake.guarantee_ppm > 0) owed_ns = std::max(owed_ns, -stake.due_ns() / stake.guarantee_ppm);
    unit.tag_ns = std::max(unit.tag_ns, stake.stands_ns() - clock_ns(stake));
  }
  if (unit.promised) unit.tag_ns = owed_ns;
}

// A lease ends by time or for lack of work, and only if another gang wants the GPU.
void Arbiter::end_leases(std::int64_t now_ns) {
  each_held(now_ns, [&](const Unit& held) {
    Gang& gang = *held.gang;
    const std::uint32_t wanted = gang.wanted();
    // While all others rest at their ceilings, no lease ends.
    for (GangOnGpu& stake : held.stakes())
      if (!is_contended(stake) && is_sought(stake)) stake.choose_payment(now_ns);
    // A share with pauses that wants the GPU again shortens a lease that began without it.
    if (held.is_single() && std::ranges::any_of(order_, [&](const Unit& other) {
          const GangOnGpu& theirs = other.first();
          return other.gpus == held.gpus && theirs.wakes && !theirs.is_always_busy(now_ns);
        }))
      held.end_lease_at(std::min(held.lease_end_ns(), held.first().lease_from_ns + lease_ns(held)));
    bool over = now_ns >= held.lease_end_ns() || (wanted & held.gpus) == 0 || gang.drain_end_ns != 0;
    // A higher class does not wait for the end of a lease.
    for (const Unit& other : order_) over |= other.gang->rank > gang.rank && (other.gpus & held.gpus) != 0;
    const bool contended = is_contended(held);
    const Unit* const next = over && contended ? successor(held.gpus) : nullptr;
    // The one that its turn ended for does not want the GPU any more.
    if (!contended || (next != nullptr && next->gang == &gang)) gang.drain_end_ns = 0;
    if (next != nullptr && next->gang == &gang && next->gpus == held.gpus) {
      // The gang is its own successor: a new turn, which may be paid the other way.
      if (now_ns >= held.lease_end_ns()) {
        begin_lease(held, now_ns);
        end_lease_level(*next, now_ns);
      }
      return;
    }
    if (next != nullptr && next->gang != &gang && drains(held, *next, now_ns)) return;
    if (next != nullptr && gang.stakes.size() > 1 && !gang.is_together(now_ns))
      gang.see_turn_end(seems_to_wait(gang), now_ns);
    if (next != nullptr) held.end_lease_at(now_ns);
  });
}

const Arbiter::Unit* Arbiter::successor(std::uint32_t gpus) const {
  const auto found = std::ranges::find_if(order_, [gpus](const Unit& unit) { return (unit.gpus & gpus) != 0; });
  return found == order_.end() ? nullptr : &*found;
}

// Returns the first of another gang that wants any of the unit's GPUs; null: there is none.
const Arbiter::Unit* Arbiter::next_other(const Unit& unit) const {
  const auto found = std::ranges::find_if(
      order_, [&](const Unit& each) { return each.gang != unit.gang && (each.gpus & unit.gpus) != 0; });
  return found == order_.end() ? nullptr : &*found;
}

// What a gang sent to one GPU waits for what it has not sent to another, and would keep spinning next to the next
// gang's work. So for a short time its turn ends in order: ranks ahead stop, ranks behind catch up.
bool Arbiter::drains(const Unit& held, const Unit& next, std::int64_t now_ns) {
  Gang& gang = *held.gang;
  if (gang.stakes.size() < 2) return ends_with_its_kernels(held, next, now_ns);
  if (std::popcount(held.gpus) < 2) return false;
  if (gang.drain_end_ns == 0) gang.drain_end_ns = now_ns + kDrainNs;
  if (gang.in_flight_ns() == 0 || now_ns >= gang.drain_end_ns) return false;
  for (GangOnGpu& stake : gang.stakes) stake.lease_end_ns = now_ns + kLookNs;
  return true;
}

// The gate is shut, and the GPU stays with the share that has kernels there. Its report is trusted once, counted from
// the first look. If they end earlier, a process rings (kEndingNs). If the kernels take longer than the successor would
// wait, the GPU's time slices are the better bound.
bool Arbiter::ends_with_its_kernels(const Unit& held, const Unit& next, std::int64_t now_ns) {
  Gang& gang = *held.gang;
  GangOnGpu& stake = held.first();
  // A launch that long has shared the GPU by time slices since its start, and continues to.
  if (stake.kernel_ns() > kTailNs) return false;
  const std::int64_t left_ns = stake.in_flight_ns();
  const GangOnGpu& theirs = *next.gang->stake(stake.gpu);
  const std::int64_t patience_ns = next.gang->rank <= gang.rank && theirs.is_always_busy(now_ns) ? kTailNs : 0;
  if (gang.drain_end_ns == 0) gang.drain_end_ns = now_ns + std::min(left_ns, patience_ns) + kTailLeadNs;
  if (left_ns <= kTailLeadNs || left_ns > patience_ns || now_ns >= gang.drain_end_ns) return false;
  const std::int64_t rest_ns = left_ns - kTailLeadNs;
  // A lost ring costs 10 ms at most: while launches wait, there is a look each 10 ms.
  stake.lease_end_ns = now_ns + rest_ns;
  // The end of short kernels is known well enough to hand the GPU over without a look. Not to kernels whose length is
  // unknown, nor in turns as short as the GPU's slices: a kernel that one cuts off then waits for several shares.
  const auto is_short = [](const ShareOnGpu& place) {
    return place.use.kernel_ns * std::max(1u, place.use.processes) <= kMaxUnwatchedNs;
  };
  const bool known = rest_ns <= kMaxUnwatchedNs && std::ranges::all_of(stake.places, [&](const ShareOnGpu& place) {
                       return place.steady(now_ns) && is_short(place);
                     });
  const bool fits = std::ranges::all_of(
      theirs.places, [&](const ShareOnGpu& place) { return place.use.kernel_ns > 0 && is_short(place); });
  if (known && fits && lease_ns(next) >= kShortestLeaseNs) gpus_[stake.gpu].hand_over_ns = stake.lease_end_ns;
  return true;
}

// Another gang's kernel that no turn has room for takes time slices of every gang's turns. The first one is measured when
// it ends.
bool Arbiter::runs_long_beside(const GangOnGpu& mine) const {
  for (const GangOnGpu& stake : stakes())
    for (const ShareOnGpu& place : stake.places)
      if (stake.gang != mine.gang && stake.gpu == mine.gpu && place.use.in_flight_ns > 0 &&
          (place.use.kernel_ns != 0 ? place.use.kernel_ns : place.use.oldest_age_ns) > kMaxPatienceNs)
        return true;
  return false;
}

// Returns whether its work on each of its GPUs at the end of a turn has held the GPU for longer than its kernels and its
// processes' slices explain, or waits at the gate: ranks that wait for each other spin. If one GPU's work makes progress,
// it is not being waited for. Time that other shares had meanwhile explains nothing.
bool Arbiter::seems_to_wait(const Gang& gang) const {
  int busy = 0;
  bool spins = false;
  for (const GangOnGpu& stake : gang.stakes)
    for (const ShareOnGpu& place : stake.places) {
      if (place.use.in_flight_ns == 0 && !place.use.wanting) continue;
      ++busy;
      if (place.use.in_flight_ns == 0) continue;
      if (!place.outlasts()) return false;
      if (runs_long_beside(stake)) return false;
      spins = true;
    }
  return busy > 1 && spins;
}

std::int64_t Arbiter::lease_ns(const Unit& unit) const {
  std::int64_t kernel_ns = 0;
  std::uint32_t crowd = 1;
  for (const GangOnGpu& stake : unit.stakes()) {
    kernel_ns = std::max(kernel_ns, stake.kernel_ns());
    crowd = std::max(crowd, gpus_[stake.gpu].wanted_by);
  }
  if (!unit.is_single()) return std::clamp(15 * kernel_ns, kGangLeaseNs, kLongestGangLeaseNs);
  // Longer turns of short kernels cost fewer switches. But a share with pauses would wait longer each time that it wakes,
  // one below a ceiling has no credit for the longest, and ranks on several GPUs may wait for each other.
  const bool longest = std::ranges::all_of(order_, [&](const Unit& each) {
    return (each.gpus & unit.gpus) == 0 ||
           (each.gang->stakes.size() == 1 && each.gang->stakes[0].ceiling_ppm == 1'000'000);
  });
  const std::int64_t busy_ns =
      longest ? kBusyLeaseNs : std::clamp<std::int64_t>(crowd * 1'000'000, kLeastBusyNs, kMostBusyNs);
  const std::int64_t usual_ns = std::max(gpus_[unit.first().gpu].all_short() ? busy_ns : 0,
                                         std::clamp(4 * kernel_ns, kShortestLeaseNs, kLongestLeaseNs));
  return std::min(usual_ns, std::max(kernel_ns, kWindowNs / crowd));
}

// Ranks that wait for each other do not stay if they have work on a GPU that they do not hold: all open together.
bool Arbiter::stays(const Unit& unit, std::int64_t now_ns) const {
  const Gang& gang = *unit.gang;
  const std::uint32_t wider = gang.is_together(now_ns) ? gang.wanted() & ~gang.holds : 0;
  return unit.is_held() && wider == 0 && (unit.lease_end_ns() > now_ns || !is_contended(unit));
}

// In order: a unit that can have all its GPUs gets them. A unit that must wait for some gets the others next; until
// then they are lent.
void Arbiter::grant(std::int64_t now_ns) {
  std::uint32_t taken = 0, lent = 0;
  std::int64_t lent_until_ns = kNever;
  each_held(now_ns, [&](const Unit& held) {
    if (stays(held, now_ns)) taken |= held.gpus;
  });
  for (const Unit& unit : order_) {
    if (stays(unit, now_ns)) continue;
    if ((unit.gpus & taken) != 0) {
      each_held(now_ns, [&](const Unit& other) {
        if ((other.gpus & unit.gpus & taken) != 0) lent_until_ns = std::min(lent_until_ns, other.lease_end_ns());
      });
      lent |= unit.gpus & ~taken;
      continue;
    }
    hold(unit, now_ns);
    if ((unit.gpus & lent) != 0)
      for (GangOnGpu& stake : unit.stakes())
        stake.lease_end_ns = std::clamp(lent_until_ns, now_ns + kOverlapNs, stake.lease_end_ns);
    taken |= unit.gpus;
  }
}

void Arbiter::hold(const Unit& unit, std::int64_t now_ns) {
  for (const auto& other : gangs_)
    // All of them at once: with half of their GPUs, ranks that wait for each other only spin.
    if (other.get() == unit.gang || (other->holds & unit.gpus) != 0)
      release(*other, other->is_together(now_ns) ? other->holds : unit.gpus);
  unit.gang->holds |= unit.gpus;
  begin_lease(unit, now_ns);
  for (GangOnGpu& stake : unit.stakes()) {
    gpus_[stake.gpu].holder = unit.gang;
    stake.had_from_ns = now_ns;
  }
}

void Arbiter::begin_lease(const Unit& unit, std::int64_t now_ns) {
  for (GangOnGpu& stake : unit.stakes()) {
    stake.choose_payment(now_ns);
    stake.lease_from_ns = now_ns;
  }
  unit.end_lease_at(now_ns + lease_ns(unit));
}

// A share that has just woken waits only until the holder has had as much, not for a turn: it may do so at each wake.
void Arbiter::end_lease_level(const Unit& held, std::int64_t now_ns) const {
  if (!held.is_single()) return;
  const GangOnGpu& mine = held.first();
  const Unit* const next = next_other(held);
  if (next == nullptr || next->promised || next->gang->rank != held.gang->rank) return;
  const GangOnGpu& theirs = *next->gang->stake(mine.gpu);
  if (!theirs.wakes || !theirs.slept) return;
  const std::int64_t behind_ns = (theirs.stands_ns() - mine.stands_ns()) * std::max<std::int64_t>(1, mine.weight);
  held.end_lease_at(std::min(held.lease_end_ns(), now_ns + std::max(behind_ns, kShortestLeaseNs / 4)));
}

void Arbiter::release(Gang& gang, std::uint32_t gpus) {
  gang.holds &= ~gpus;
  gang.drain_end_ns = 0;
  for (std::uint32_t g = 0; g < gpu_count_; ++g)
    if (gpus_[g].holder == &gang && (gpus >> g & 1) != 0) gpus_[g].holder = nullptr;
}

}  // namespace headgate::schedule
