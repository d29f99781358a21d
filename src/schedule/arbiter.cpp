#include "schedule/arbiter.hpp"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

namespace headgate::schedule {
namespace {

constexpr std::uint32_t bit(std::uint32_t gpu) { return 1u << gpu; }

// Adds a share's terms to its gang's stakes; with -1, removes them.
void add_terms(Gang& gang, const Terms& terms, std::int64_t sign) {
  GangOnGpu* stake = gang.stake(terms.gpu);
  if (stake == nullptr) {
    stake = &gang.stakes.emplace_back();
    stake->gpu = terms.gpu;
  }
  stake->weight += sign * static_cast<std::int64_t>(terms.weight);
  stake->guarantee_ppm += sign * static_cast<std::int64_t>(terms.guarantee_ppm);
}

}  // namespace

Arbiter::Arbiter(std::uint32_t gpus) : gpu_count_(std::min(gpus, kMaxGpus)) {}
Arbiter::~Arbiter() = default;

void Arbiter::set_policy(std::uint32_t gpu, Policy policy) { gpus_[gpu].policy = policy; }

ShareId Arbiter::add_share(const ShareTerms& terms) {
  const auto free = std::ranges::find(shares_, nullptr, &Share::gang);
  const auto id = static_cast<ShareId>(free - shares_.begin());
  if (free == shares_.end()) shares_.emplace_back();
  auto found =
      std::ranges::find_if(gangs_, [&](const auto& gang) { return !terms.gang.empty() && gang->name == terms.gang; });
  if (found == gangs_.end()) {
    gangs_.push_back(std::make_unique<Gang>());
    found = gangs_.end() - 1;
    (*found)->name = terms.gang;
  }
  Gang& gang = **found;
  gang.members.push_back(id);
  Share& share = shares_[id];
  share.gang = &gang;
  for (std::size_t i = 0; i < terms.gpus.size(); ++i) {
    const Terms& each = terms.gpus[i];
    const bool first = gang.stake(each.gpu) == nullptr;
    share.places.emplace_back().terms = each;
    add_terms(gang, each, 1);
    GangOnGpu& stake = *gang.stake(each.gpu);
    if (first && i < terms.virtual_times_ns.size())
      stake.virtual_ns = std::clamp(terms.virtual_times_ns[i], -kMaxHeldNs, kMaxHeldNs);
    // A share that slept under an earlier arbiter has no more credit than it had there.
    for (std::int64_t& least_ns : gpus_[each.gpu].least_ns) least_ns = std::max(least_ns, stake.virtual_ns);
  }
  std::size_t places = 0;
  for (const Share& each : shares_) places += each.places.size();
  order_.reserve(places);
  claims_.reserve(places);
  changes_.reserve(places);
  return id;
}

void Arbiter::adopt(ShareId id, std::uint32_t gpu, const Use& use, Gate gate) {
  ShareOnGpu* place = share_on(id, gpu);
  if (place == nullptr) return;
  place->use = sane(use);
  place->gate = gate;
}

void Arbiter::change_share(ShareId id, std::span<const Terms> terms) {
  for (const Terms& each : terms) {
    ShareOnGpu* place = share_on(id, each.gpu);
    if (place == nullptr) continue;
    Gang& gang = *shares_[id].gang;
    GangOnGpu& stake = *gang.stake(each.gpu);
    const std::int64_t weight = stake.weight;
    add_terms(gang, place->terms, -1);
    place->terms = each;
    add_terms(gang, place->terms, 1);
    // Its distance from the others remains the same GPU time.
    const double ratio = static_cast<double>(weight) / static_cast<double>(std::max<std::int64_t>(1, stake.weight));
    const std::int64_t clock_ns = this->clock_ns(gang, each.gpu);
    const double ahead_ns = static_cast<double>(stake.virtual_ns - clock_ns) * ratio;
    stake.virtual_ns = clock_ns + static_cast<std::int64_t>(std::clamp(ahead_ns, -1e17, 1e17));
  }
}

void Arbiter::remove_share(ShareId id) {
  Share& share = shares_[id];
  Gang* const gang = share.gang;
  for (const ShareOnGpu& place : share.places) add_terms(*gang, place.terms, -1);
  share = {};
  std::erase(gang->members, id);
  if (!gang->members.empty()) return;
  for (Gpu& gpu : gpus_)
    if (gpu.holder == gang) gpu.holder = nullptr;
  std::erase_if(gangs_, [gang](const auto& each) { return each.get() == gang; });
}

ShareOnGpu* Arbiter::share_on(ShareId id, std::uint32_t gpu) {
  for (ShareOnGpu& place : shares_[id].places)
    if (place.terms.gpu == gpu) return &place;
  return nullptr;
}

void Arbiter::observe(ShareId id, std::uint32_t gpu, const Use& reported, std::int64_t now_ns) {
  ShareOnGpu* place = share_on(id, gpu);
  if (place == nullptr) return;
  Gang& gang = *shares_[id].gang;
  GangOnGpu& stake = *gang.stake(gpu);
  const Use use = sane(reported);
  // Time that turns out to be another share's is given back.
  const std::int64_t reported_ns = was_away(now_ns) ? 0 : use.held_ns - place->use.held_ns;
  const std::int64_t held_ns = place->credible_ns(reported_ns, now_ns);
  const bool requested = use.requests != place->use.requests;
  const bool was_overdue = place->overdue();
  const bool anew = was_overdue || place->use.in_flight_ns == 0;
  place->use = use;
  if (use.in_flight_ns > 0 && !place->overdue())
    place->expected_ns = anew ? use.in_flight_ns : std::max(place->expected_ns, use.in_flight_ns);
  if (!was_overdue) place->overdue_since_ns = now_ns;
  stake.held_ns = std::clamp(stake.held_ns + held_ns, -kMaxHeldNs, kMaxHeldNs);
  if (stake.seeks() && is_sought(stake))
    stake.ahead_ns = std::clamp(stake.ahead_ns + held_ns, -kMaxAheadNs, kMaxAheadNs);
  // What it had as latency class is no debt in another class.
  if (place->terms.priority_class != Class::latency)
    stake.charge(held_ns, held_ns < 0 ? stake.was_reserved() : stake.reserved, is_sought(stake));
  if (requested || use.wanting || use.in_flight_ns > 0) place->active_ns = now_ns;
  place->learn_gap(now_ns);
  place->look_at_ceiling();
  if (use.ceiling_ns > 0 || place->rests) place->paused_ns = place->throttled_ns = now_ns;
  if (requested && place->terms.priority_class == Class::latency) gpus_[gpu].protected_until_ns = now_ns + kProtectedNs;
}

Decision Arbiter::decide(std::int64_t now_ns) {
  if (was_away(now_ns)) forget_open_turns();
  pay_for_told_looks(now_ns);
  refresh(now_ns);
  order(now_ns);
  end_leases(now_ns);
  grant(now_ns);
  changes_.clear();
  set_gates(now_ns);
  record_turns(now_ns);
  due_ns_ = wake_at_ns(now_ns);
  return {changes_, due_ns_};
}

void Arbiter::forget_open_turns() {
  for (const auto& gang : gangs_)
    for (GangOnGpu& stake : gang->stakes) stake.open.share = kNoShare;
}

void Arbiter::refresh(std::int64_t now_ns) {
  const std::int64_t passed_ns = std::clamp<std::int64_t>(now_ns - refreshed_ns_, 0, kWindowNs);
  refreshed_ns_ = now_ns;
  for (const auto& gang : gangs_)
    for (GangOnGpu& stake : gang->stakes) stake.earn(passed_ns, is_sought(stake));
  keep_pace(now_ns, passed_ns);
  for (Gpu& gpu : gpus_) gpu.wanted_by = gpu.sought_by = 0;
  for (const auto& each : gangs_) {
    look_for_wants(*each, now_ns, passed_ns);
    for (GangOnGpu& stake : each->stakes) {
      gpus_[stake.gpu].wanted_by += stake.wants;
      gpus_[stake.gpu].sought_by += stake.seeks();
      stake.assume(now_ns);
    }
  }
  go_on();
  for (const auto& gang : gangs_)
    for (GangOnGpu& stake : gang->stakes)
      if (stake.wakes || (stake.wants && stake.has_gaps))
        catch_up(*gang, stake, stake.rested ? kRestCreditNs : stake.slept ? kWakeCreditNs : kGapCreditNs);
}

void Arbiter::look_for_wants(Gang& gang, std::int64_t now_ns, std::int64_t passed_ns) {
  std::uint32_t rank = 0, engaged = 0;
  for (GangOnGpu& stake : gang.stakes) {
    stake.wanted_before = std::exchange(stake.wants, false);
    stake.slept = now_ns - stake.engaged_ns > kSleepNs;
    stake.rested = std::exchange(stake.held_back, false);
    stake.has_gaps = stake.has_long = false;
    stake.long_ns = stake.ceiling_ppm = 0;
  }
  for (const ShareId id : gang.members)
    for (ShareOnGpu& place : shares_[id].places) {
      const std::uint32_t gpu = place.terms.gpu;
      if (gpus_[gpu].policy == Policy::off) continue;
      if (gpus_[gpu].policy == Policy::priority)
        rank = std::max(rank, static_cast<std::uint32_t>(place.terms.priority_class));
      GangOnGpu& stake = *gang.stake(gpu);
      stake.has_long |= place.use.kernel_ns >= kLongKernelNs;
      stake.long_ns = std::max(stake.long_ns, place.use.kernel_ns);
      stake.ceiling_ppm = std::min<std::int64_t>(1'000'000, stake.ceiling_ppm + place.use.ceiling_ppm);
      const bool engages = place.engaged(now_ns);
      const bool held_back =
          place.throttled() || ((place.rests || place.early) && (place.use.wanting || place.use.in_flight_ns > 0));
      stake.held_back |= held_back;
      if (engages || held_back) place.wanted_ns += passed_ns;
      if (!engages) continue;
      engaged |= bit(gpu);
      stake.engaged_ns = now_ns;
      stake.has_gaps |= place.gap_ns > 0;
    }
  if (rank != gang.rank) change_rank(gang, rank);
  for (GangOnGpu& stake : gang.stakes) {
    // Ranks held together want all GPUs that they used recently, except one on which their ceiling stops them.
    const bool with_others = engaged != 0 && gang.is_together(now_ns) && now_ns - stake.engaged_ns < kTogetherNs &&
                             !stake.held_back && gpus_[stake.gpu].policy != Policy::off;
    stake.wants = (engaged & bit(stake.gpu)) != 0 || with_others;
    stake.wakes = stake.wants && !stake.wanted_before;
    if (!stake.wakes) continue;
    for (const ShareId id : gang.members)
      for (ShareOnGpu& place : shares_[id].places)
        if (place.terms.gpu == stake.gpu) place.paused_ns = now_ns;
  }
}

// Another gang's kernel that no turn has room for takes time slices of every gang's turns.
bool Arbiter::runs_long_beside(const Gang& gang, std::uint32_t gpu) const {
  for (const Share& share : shares_)
    for (const ShareOnGpu& place : share.places)
      if (share.gang != &gang && place.terms.gpu == gpu && place.use.in_flight_ns > 0 &&
          place.use.kernel_ns > kMaxPatienceNs)
        return true;
  return false;
}

// Returns whether its work on each of its GPUs at the end of a turn has run longer than its kernels and others' slices
// explain, or waits at the gate: ranks that wait for each other spin. If one GPU's work makes progress, it is not being
// waited for.
bool Arbiter::seems_to_wait(const Gang& gang) const {
  int busy = 0;
  bool spins = false;
  for (const ShareId id : gang.members)
    for (const ShareOnGpu& place : shares_[id].places) {
      if (place.use.in_flight_ns == 0 && !place.use.wanting) continue;
      ++busy;
      if (place.use.in_flight_ns == 0) continue;
      // Its processes there share the GPU.
      const std::int64_t kernel_ns = place.use.kernel_ns * std::max(1u, place.use.processes);
      if (kernel_ns == 0 || place.use.oldest_age_ns < kRankWaitsNs + 2 * kernel_ns) return false;
      if (runs_long_beside(gang, place.terms.gpu)) return false;
      spins = true;
    }
  return busy > 1 && spins;
}

// Each class has a separate clock, since classes do not wait for each other. With a common one, a lower class without
// GPU time would hold the clock back, and a gang joining the higher class would be behind those that have worked there.
// The gang keeps its position relative to the others.
void Arbiter::change_rank(Gang& gang, std::uint32_t rank) {
  const std::uint32_t before = std::exchange(gang.rank, std::min(rank, kRanks - 1));
  for (GangOnGpu& stake : gang.stakes) {
    const std::int64_t ahead_ns = stake.virtual_ns - gpus_[stake.gpu].least_ns[before];
    stake.virtual_ns = std::clamp(clock_ns(gang, stake.gpu) + ahead_ns, -kMaxHeldNs, kMaxHeldNs);
  }
}

// A gang that did not want the GPU has not saved up credit.
void Arbiter::catch_up(Gang& gang, GangOnGpu& stake, std::int64_t credit_ns) {
  stake.virtual_ns = std::max(stake.virtual_ns, clock_ns(gang, stake.gpu) - stake.price_ns(credit_ns));
}

// Advances each GPU's clock to the gang that is furthest behind there.
void Arbiter::go_on() {
  struct Behind {
    std::int64_t least_ns = kNever, waking_ns = -kNever, resting_ns = kNever;
  };
  std::array<std::array<Behind, kRanks>, kMaxGpus> behind{};
  for (const auto& gang : gangs_)
    for (const GangOnGpu& stake : gang->stakes) {
      Behind& here = behind[stake.gpu][gang->rank];
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

// With several GPUs, the one counts on which it is furthest from its turn, among those that another gang wants.
Arbiter::Unit Arbiter::unit_of(Gang& gang, std::uint32_t gpus) const {
  Unit unit{.gang = &gang, .gpus = gpus, .promised = true, .tag_ns = -kNever};
  std::int64_t owed_ns = -kNever;
  for (const GangOnGpu& stake : gang.stakes) {
    if ((gpus & bit(stake.gpu)) == 0 || (gpus != bit(stake.gpu) && !is_contended(stake))) continue;
    unit.promised &= stake.is_promised();
    if (stake.guarantee_ppm > 0) owed_ns = std::max(owed_ns, -stake.due_ns() / stake.guarantee_ppm);
    unit.tag_ns = std::max(unit.tag_ns, stake.stands_ns() - clock_ns(gang, stake.gpu));
  }
  if (unit.promised) unit.tag_ns = owed_ns;
  return unit;
}

void Arbiter::order(std::int64_t now_ns) {
  order_.clear();
  for (const auto& gang : gangs_) {
    const std::uint32_t wanted = gang->wanted();
    if (wanted == 0) continue;
    if (gang->is_together(now_ns)) {
      order_.push_back(unit_of(*gang, wanted));
      continue;
    }
    for (const GangOnGpu& stake : gang->stakes)
      if (stake.wants) order_.push_back(unit_of(*gang, bit(stake.gpu)));
  }
  const auto key = [](const Unit& unit) {
    return std::tuple(-static_cast<int>(unit.gang->rank), !unit.promised, unit.tag_ns, unit.gang->members[0]);
  };
  std::ranges::sort(order_, std::less<>{}, key);
}

// Returns whether another gang wants one of these GPUs.
bool Arbiter::contended(const Gang& gang, std::uint32_t gpus) const {
  return std::ranges::any_of(
      gang.stakes, [&](const GangOnGpu& stake) { return (gpus & bit(stake.gpu)) != 0 && is_contended(stake); });
}

std::int64_t Arbiter::lease_end_ns(const Unit& unit) {
  std::int64_t end_ns = kNever;
  for (const GangOnGpu& stake : unit.gang->stakes)
    if ((unit.gpus & bit(stake.gpu)) != 0) end_ns = std::min(end_ns, stake.lease_end_ns);
  return end_ns;
}

// Calls use() once for each unit held. `use` must neither take nor give any.
template <typename Use>
void Arbiter::each_held(std::int64_t now_ns, Use use) {
  for (const auto& gang : gangs_) {
    if (gang->holds == 0) continue;
    if (gang->is_together(now_ns)) {
      use(Unit{.gang = gang.get(), .gpus = gang->holds});
      continue;
    }
    for (const GangOnGpu& stake : gang->stakes)
      if ((gang->holds & bit(stake.gpu)) != 0) use(Unit{.gang = gang.get(), .gpus = bit(stake.gpu)});
  }
}

// A lease ends by time or for lack of work, and only if another gang wants the GPU. It also ends when ranks that wait
// for each other have work on a GPU they do not hold, so that all open together.
void Arbiter::end_leases(std::int64_t now_ns) {
  each_held(now_ns, [&](const Unit& held) {
    Gang& gang = *held.gang;
    const std::uint32_t wanted = gang.wanted();
    // While all others rest at their ceilings, no lease ends.
    for (GangOnGpu& stake : gang.stakes)
      if ((held.gpus & bit(stake.gpu)) != 0 && !is_contended(stake) && is_sought(stake)) stake.choose_payment(now_ns);
    bool over = now_ns >= lease_end_ns(held) || (wanted & held.gpus) == 0;
    // A higher class does not wait for the end of a lease.
    for (const Unit& other : order_) over |= other.gang->rank > gang.rank && (other.gpus & held.gpus) != 0;
    const Unit* const next = over && contended(gang, held.gpus) ? successor(held.gpus) : nullptr;
    // The one that its turn ended for does not want the GPU any more.
    if (!contended(gang, held.gpus) || (next != nullptr && next->gang == &gang)) gang.drain_end_ns = 0;
    if (next != nullptr && next->gang == &gang && next->gpus == held.gpus) {
      // The gang is its own successor: a new turn, which may be paid the other way.
      if (now_ns >= lease_end_ns(held)) begin_lease(held, now_ns);
      return;
    }
    if (next != nullptr && next->gang != &gang && drains(held, *next, now_ns)) return;
    if (next != nullptr && gang.stakes.size() > 1 && !gang.is_together(now_ns))
      gang.see_turn_end(seems_to_wait(gang), now_ns);
    const bool wider = gang.is_together(now_ns) && (wanted & ~gang.holds) != 0;
    if (next == nullptr && !wider) return;
    for (GangOnGpu& stake : gang.stakes)
      if ((held.gpus & bit(stake.gpu)) != 0) stake.lease_end_ns = now_ns;
  });
}

const Arbiter::Unit* Arbiter::successor(std::uint32_t gpus) const {
  const auto found = std::ranges::find_if(order_, [gpus](const Unit& unit) { return (unit.gpus & gpus) != 0; });
  return found == order_.end() ? nullptr : &*found;
}

// What a gang sent to one GPU waits for what it has not sent to another, and would keep spinning next to the next
// gang's work. So for a short time its turn ends in order: ranks ahead stop, ranks behind catch up.
bool Arbiter::drains(const Unit& held, const Unit& next, std::int64_t now_ns) {
  Gang& gang = *held.gang;
  if (gang.stakes.size() < 2) return ends_with_its_kernels(held, next, now_ns);
  if (std::popcount(held.gpus) < 2) return false;
  bool in_flight = false;
  for (const ShareId id : gang.members)
    for (const ShareOnGpu& place : shares_[id].places) in_flight |= place.use.in_flight_ns > 0;
  if (gang.drain_end_ns == 0) gang.drain_end_ns = now_ns + kDrainNs;
  if (!in_flight || now_ns >= gang.drain_end_ns) return false;
  for (GangOnGpu& stake : gang.stakes) stake.lease_end_ns = now_ns + kLookNs;
  return true;
}

// The gate is shut, and the GPU stays with the share that has kernels there. Its report is trusted once, counted from
// the first look. If the kernels take longer than the successor would wait, the GPU's time slices are the better bound.
bool Arbiter::ends_with_its_kernels(const Unit& held, const Unit& next, std::int64_t now_ns) {
  Gang& gang = *held.gang;
  GangOnGpu& stake = gang.stakes[0];
  std::int64_t left_ns = 0;
  for (const ShareId id : gang.members)
    for (const ShareOnGpu& place : shares_[id].places) {
      left_ns = std::max(left_ns, place.use.in_flight_ns);
      // A launch that long has shared the GPU by time slices since its start, and continues to.
      if (place.use.kernel_ns > kTailNs) return false;
    }
  const bool waits = next.gang->rank <= gang.rank && is_always_busy(*next.gang, stake.gpu, now_ns);
  const std::int64_t patience_ns = waits ? kTailNs : 0;
  if (gang.drain_end_ns == 0) gang.drain_end_ns = now_ns + std::min(left_ns, patience_ns) + kTailLeadNs;
  if (left_ns <= kTailLeadNs || left_ns > patience_ns || now_ns >= gang.drain_end_ns) return false;
  stake.lease_end_ns = now_ns + std::min(left_ns - kTailLeadNs, kDrainLookNs);
  return true;
}

bool Arbiter::is_always_busy(const Gang& gang, std::uint32_t gpu, std::int64_t now_ns) const {
  for (const ShareId id : gang.members)
    for (const ShareOnGpu& place : shares_[id].places)
      if (place.terms.gpu == gpu && !place.always_busy(now_ns)) return false;
  return true;
}

std::int64_t Arbiter::lease_ns(const Unit& unit) const {
  std::int64_t kernel_ns = 0;
  std::uint32_t crowd = 1;
  for (const ShareId id : unit.gang->members)
    for (const ShareOnGpu& place : shares_[id].places)
      if ((unit.gpus & bit(place.terms.gpu)) != 0) kernel_ns = std::max(kernel_ns, place.use.kernel_ns);
  for (const GangOnGpu& stake : unit.gang->stakes)
    if ((unit.gpus & bit(stake.gpu)) != 0) crowd = std::max(crowd, gpus_[stake.gpu].wanted_by);
  if (std::popcount(unit.gpus) > 1) return std::clamp(15 * kernel_ns, kGangLeaseNs, kLongestGangLeaseNs);
  const std::int64_t usual_ns = std::clamp(4 * kernel_ns, kShortestLeaseNs, kLongestLeaseNs);
  return std::min(usual_ns, std::max(kernel_ns, kWindowNs / crowd));
}

bool Arbiter::stays(const Unit& unit, std::int64_t now_ns) const {
  const Gang& gang = *unit.gang;
  const std::uint32_t wider = gang.is_together(now_ns) ? gang.wanted() & ~gang.holds : 0;
  return (gang.holds & unit.gpus) == unit.gpus && wider == 0 &&
         (lease_end_ns(unit) > now_ns || !contended(gang, unit.gpus));
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
    if ((unit.gang->holds & unit.gpus) == unit.gpus && stays(unit, now_ns)) continue;
    if ((unit.gpus & taken) != 0) {
      each_held(now_ns, [&](const Unit& other) {
        if ((other.gpus & unit.gpus & taken) != 0) lent_until_ns = std::min(lent_until_ns, lease_end_ns(other));
      });
      lent |= unit.gpus & ~taken;
      continue;
    }
    hold(unit, now_ns);
    if ((unit.gpus & lent) != 0)
      for (GangOnGpu& stake : unit.gang->stakes)
        if ((unit.gpus & bit(stake.gpu)) != 0)
          stake.lease_end_ns = std::clamp(lent_until_ns, now_ns + kOverlapNs, stake.lease_end_ns);
    taken |= unit.gpus;
  }
}

void Arbiter::hold(const Unit& unit, std::int64_t now_ns) {
  for (const auto& other : gangs_) {
    if (other.get() == unit.gang || (other->holds & unit.gpus) == 0) continue;
    // All of them at once: with half of their GPUs, ranks that wait for each other only spin.
    release(*other, other->is_together(now_ns) ? other->holds : unit.gpus);
  }
  release(*unit.gang, unit.gang->is_together(now_ns) ? unit.gang->holds : unit.gpus);
  unit.gang->holds |= unit.gpus;
  begin_lease(unit, now_ns);
  for (const GangOnGpu& stake : unit.gang->stakes)
    if ((unit.gpus & bit(stake.gpu)) != 0) gpus_[stake.gpu].holder = unit.gang;
}

void Arbiter::begin_lease(const Unit& unit, std::int64_t now_ns) {
  const std::int64_t length_ns = lease_ns(unit);
  for (GangOnGpu& stake : unit.gang->stakes) {
    if ((unit.gpus & bit(stake.gpu)) == 0) continue;
    stake.choose_payment(now_ns);
    stake.lease_end_ns = now_ns + length_ns;
  }
}

void Arbiter::release(Gang& gang, std::uint32_t gpus) {
  gang.holds &= ~gpus;
  gang.drain_end_ns = 0;
  for (Gpu& gpu : gpus_)
    if (gpu.holder == &gang && (gpus & bit(static_cast<std::uint32_t>(&gpu - gpus_.data()))) != 0) gpu.holder = nullptr;
}

// Looks often while the holder waits for its predecessor's last kernel.
std::int64_t Arbiter::protected_look_ns(const Gpu& gpu, std::int64_t now_ns) const {
  if (gpu.holder != nullptr)
    for (const ShareId id : gpu.holder->members)
      for (const ShareOnGpu& place : shares_[id].places)
        if (&gpus_[place.terms.gpu] == &gpu && is_closed(place.gate) && place.engaged(now_ns)) return now_ns + kLookNs;
  return gpu.protected_until_ns;
}

// Returns whether a share that wants one of these GPUs finds its gate shut. If all other shares' kernels fit into the
// holder's pauses, the end of its lease is early enough to notice that it has stopped.
bool Arbiter::keeps_out(std::uint32_t gpus) const {
  for (std::uint32_t g = 0; g < gpu_count_; ++g)
    if ((gpus & bit(g)) != 0 && gpus_[g].kept_out > 0) return true;
  return false;
}

void Arbiter::pay_for_told_looks(std::int64_t now_ns) {
  for (Gpu& gpu : gpus_) {
    if (now_ns >= gpu.told_look_ns) gpu.told_paid_ns = std::max(gpu.told_paid_ns, now_ns - kToldCreditNs) + kToldLookNs;
    gpu.told_look_ns = kNever;
  }
}

std::int64_t Arbiter::wake_at_ns(std::int64_t now_ns) {
  std::int64_t at_ns = kNever;
  const auto by = [&](std::int64_t when_ns) { at_ns = std::min(at_ns, std::max(when_ns, now_ns + kMinWakeNs)); };
  const auto by_its_word = [&](std::uint32_t gpu, std::int64_t when_ns) {
    const std::int64_t paid_ns = std::max(when_ns, gpus_[gpu].told_paid_ns);
    gpus_[gpu].told_look_ns = std::min(gpus_[gpu].told_look_ns, paid_ns);
    by(paid_ns);
  };
  for (const Share& share : shares_)
    for (const ShareOnGpu& place : share.places)
      if (place.use.wanting && (place.throttled() || place.rests) && place.gate != Gate::open)
        by_its_word(place.terms.gpu,
                    now_ns + std::min(kRestLookNs,
                                      place.use.ceiling_ns + (place.use.credit_ns == kNoCeiling
                                                                  ? 0
                                                                  : place.worth_a_turn_ns() - place.use.credit_ns)));
  for (const Share& share : shares_)
    for (const ShareOnGpu& place : share.places)
      if (place.early && place.use.wanting)
        by_its_word(place.terms.gpu,
                    std::min(now_ns + kRestLookNs, on_pace_ns(*share.gang->stake(place.terms.gpu), place, now_ns)));
  // Also for a gang that wants no more, and so is not in the order.
  for (const auto& gang : gangs_)
    if (gang->drain_end_ns != 0)
      for (const GangOnGpu& stake : gang->stakes)
        if ((gang->holds & bit(stake.gpu)) != 0) by(stake.lease_end_ns);
  for (const Unit& unit : order_) {
    const Gang& gang = *unit.gang;
    if (!contended(gang, unit.gpus)) continue;
    const bool holds = (gang.holds & unit.gpus) != 0;
    const std::int64_t lease_end_ns = this->lease_end_ns(unit);
    if (holds && !keeps_out(unit.gpus)) {
      by(lease_end_ns);
    } else if (holds) {
      // A share that always has work ready keeps enough in flight to hide the handover, unless its kernels are short.
      // The end of a lease is early enough to notice that it has none left. Each look costs a wake-up.
      bool steady = true;
      std::int64_t kernel_ns = kNever, idle_ns = 0;
      for (const ShareId id : gang.members)
        for (const ShareOnGpu& place : shares_[id].places) {
          if ((unit.gpus & bit(place.terms.gpu)) == 0 || !place.engaged(now_ns)) continue;
          steady &= place.steady(now_ns);
          kernel_ns = std::min(kernel_ns, place.use.kernel_ns);
          // The earliest time at which it is known to have no work.
          idle_ns =
              std::max(idle_ns, std::max(place.active_ns, now_ns) + place.use.in_flight_ns + place.patience_ns(now_ns));
        }
      const std::int64_t early_ns = lease_end_ns - (steady && kernel_ns >= kOverlapNs ? 0 : kOverlapNs);
      const std::int64_t ends_ns = early_ns > now_ns ? early_ns : lease_end_ns;
      by(ends_ns);
      if (idle_ns > now_ns && !(steady && idle_ns + kIdleLookNs > ends_ns))
        by_its_word(static_cast<std::uint32_t>(std::countr_zero(unit.gpus)), idle_ns);
    } else if (gang.stakes.size() > 1) {
      by(now_ns + 2 * kOverdueNs);
    }
    for (const GangOnGpu& stake : gang.stakes) {
      if ((unit.gpus & bit(stake.gpu)) == 0) continue;
      if (stake.first != stake.last) by(stake.turns[stake.first % GangOnGpu::kTurns].to_ns + 4 * kTurnSettlesNs);
      if (gpus_[stake.gpu].protected_until_ns > now_ns) by(protected_look_ns(gpus_[stake.gpu], now_ns));
    }
  }
  return at_ns;
}

}  // namespace headgate::schedule
