#include "schedule/arbiter.hpp"

#include <algorithm>
#include <bit>
#include <tuple>

namespace headgate::schedule {
namespace {

constexpr std::uint32_t bit(std::uint32_t gpu) { return 1u << gpu; }

// Adds the terms of a share to (or, with -1, takes them from) its gang's stakes.
void add_terms(Gang& gang, const Terms& terms, std::int64_t sign) {
  Stake* stake = gang.stake(terms.gpu);
  if (stake == nullptr) {
    stake = &gang.stakes.emplace_back();
    stake->gpu = terms.gpu;
  }
  stake->weight += sign * static_cast<std::int64_t>(terms.weight);
  stake->guarantee_ppm += sign * static_cast<std::int64_t>(terms.guarantee_ppm);
}

}  // namespace

Arbiter::Arbiter(std::uint32_t gpus) : gpu_count_(std::min(gpus, kMostGpus)) {}
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
    (*found)->virtual_ns = std::clamp(terms.virtual_time_ns, -kMostHeldNs, kMostHeldNs);
  }
  Gang& gang = **found;
  gang.members.push_back(id);
  // Who slept while an earlier arbiter counted has no more credit than with that one.
  for (const Terms& each : terms.gpus)
    for (std::int64_t& least_ns : gpus_[each.gpu].least_ns) least_ns = std::max(least_ns, gang.virtual_ns);
  Share& share = shares_[id];
  share.gang = &gang;
  for (const Terms& each : terms.gpus) {
    Place& place = share.places.emplace_back();
    place.terms = each;
    add_terms(gang, each, 1);
  }
  std::size_t places = 0;
  for (const Share& each : shares_) places += each.places.size();
  order_.reserve(gangs_.size());
  changes_.reserve(places);
  return id;
}

void Arbiter::adopt(ShareId id, std::uint32_t gpu, const Use& use, Gate gate) {
  Place* place = place_of(id, gpu);
  if (place == nullptr) return;
  place->use = sane(use);
  place->gate = gate;
}

void Arbiter::change_share(ShareId id, std::span<const Terms> terms) {
  for (const Terms& each : terms) {
    Place* place = place_of(id, each.gpu);
    if (place == nullptr) continue;
    add_terms(*shares_[id].gang, place->terms, -1);
    place->terms = each;
    add_terms(*shares_[id].gang, place->terms, 1);
  }
}

void Arbiter::remove_share(ShareId id) {
  Share& share = shares_[id];
  Gang* const gang = share.gang;
  for (const Place& place : share.places) add_terms(*gang, place.terms, -1);
  share = {};
  std::erase(gang->members, id);
  if (!gang->members.empty()) return;
  for (Gpu& gpu : gpus_)
    if (gpu.holder == gang) gpu.holder = nullptr;
  std::erase_if(gangs_, [gang](const auto& each) { return each.get() == gang; });
}

Place* Arbiter::place_of(ShareId id, std::uint32_t gpu) {
  for (Place& place : shares_[id].places)
    if (place.terms.gpu == gpu) return &place;
  return nullptr;
}

void Arbiter::observe(ShareId id, std::uint32_t gpu, const Use& reported, std::int64_t now_ns) {
  Place* place = place_of(id, gpu);
  if (place == nullptr) return;
  Gang& gang = *shares_[id].gang;
  Stake& stake = *gang.stake(gpu);
  const Use use = sane(reported);
  // Time that turns out to have been another's comes back.
  const std::int64_t reported_ns = was_away(now_ns) ? 0 : use.held_ns - place->use.held_ns;
  const std::int64_t held_ns = place->credible_ns(reported_ns, now_ns);
  const bool requested = use.requests != place->use.requests;
  const bool was_overdue = place->overdue();
  const bool anew = was_overdue || place->use.in_flight_ns == 0;
  place->use = use;
  if (use.in_flight_ns > 0 && !place->overdue())
    place->expected_ns = anew ? use.in_flight_ns : std::max(place->expected_ns, use.in_flight_ns);
  if (!was_overdue) place->overdue_since_ns = now_ns;
  stake.held_ns = std::clamp(stake.held_ns + held_ns, -kMostHeldNs, kMostHeldNs);
  // What it has by the latency class is no debt once its class is another.
  if (place->terms.priority_class != Class::latency) gang.charge(stake, held_ns);
  if (requested || use.wanting || use.in_flight_ns > 0) place->active_ns = now_ns;
  place->learn_gap(now_ns);
  if (use.ceiling_ns > 0) place->paused_ns = place->throttled_ns = now_ns;
  if (requested && place->terms.priority_class == Class::latency) gpus_[gpu].protected_until_ns = now_ns + kProtectedNs;
}

Decision Arbiter::decide(std::int64_t now_ns) {
  if (was_away(now_ns)) forget_open_turns();
  pay_for_told_looks(now_ns);
  refresh(now_ns);
  order();
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
    for (Stake& stake : gang->stakes) stake.open.share = kNoShare;
}

void Arbiter::refresh(std::int64_t now_ns) {
  const std::int64_t passed_ns = std::clamp<std::int64_t>(now_ns - refreshed_ns_, 0, kWindowNs);
  refreshed_ns_ = now_ns;
  for (Gpu& gpu : gpus_) gpu.wanted_by = 0;
  for (const auto& each : gangs_) {
    Gang& gang = *each;
    const bool rested = gang.wanted == 0;
    gang.wanted_before = gang.wanted;
    gang.slept = rested;
    std::uint32_t engaged = 0, recent = 0, rank = 0;
    gang.has_gaps = false;
    for (const ShareId id : gang.members)
      for (const Place& place : shares_[id].places) {
        const std::uint32_t gpu = place.terms.gpu;
        if (gpus_[gpu].policy == Policy::off) continue;
        if (gpus_[gpu].policy == Policy::priority)
          rank = std::max(rank, static_cast<std::uint32_t>(place.terms.priority_class));
        if (!place.engaged(now_ns)) continue;
        engaged |= bit(gpu);
        gang.slept &= now_ns - gang.stake(gpu)->engaged_ns > kSleepNs;
        gang.stake(gpu)->engaged_ns = now_ns;
        gang.has_gaps |= place.gap_ns > 0;
      }
    if (rank != gang.rank) change_rank(gang, rank);
    for (Stake& stake : gang.stakes) {
      const std::int64_t earned_ns = passed_ns * stake.guarantee_ppm / 1'000'000;
      stake.budget_ns = std::min(stake.budget_ns + earned_ns, kWindowNs * stake.guarantee_ppm / 1'000'000);
      if (now_ns - stake.engaged_ns < kTogetherNs && gpus_[stake.gpu].policy != Policy::off) recent |= bit(stake.gpu);
    }
    gang.wanted = engaged == 0 ? 0 : recent;
    for (Stake& stake : gang.stakes) gpus_[stake.gpu].wanted_by += (gang.wanted >> stake.gpu) & 1;
    gang.wakes = gang.wanted != 0 && rested;
    if (gang.wakes)
      for (const ShareId id : gang.members)
        for (Place& place : shares_[id].places) place.paused_ns = now_ns;
  }
  assume(now_ns);
  for (const auto& gang : gangs_)
    if (std::popcount(gang->wanted) > 1 && (gang->wanted & ~gang->wanted_before) != 0) level_clocks(*gang);
  for (const auto& gang : gangs_)
    if (gang->wakes || (gang->wanted != 0 && gang->has_gaps))
      catch_up(*gang, gang->slept ? kWakeCreditNs : kGapCreditNs);
  keep_promises(now_ns);
}

std::int64_t Arbiter::furthest_clock_ns(const Gang& gang) const {
  std::int64_t most_ns = std::numeric_limits<std::int64_t>::min();
  for (const Stake& stake : gang.stakes) most_ns = std::max(most_ns, gpus_[stake.gpu].least_ns[gang.rank]);
  return most_ns;
}

// Classes do not wait for each other, so each has its own clock: a lower one that gets nothing would hold a common one back, and
// whoever comes to the higher class would stand behind those that have worked there. Its standing among the others goes with it.
void Arbiter::change_rank(Gang& gang, std::uint32_t rank) {
  const std::int64_t ahead_ns = gang.virtual_ns - furthest_clock_ns(gang);
  gang.rank = std::min(rank, kRanks - 1);
  gang.virtual_ns = std::clamp(furthest_clock_ns(gang) + ahead_ns, -kMostHeldNs, kMostHeldNs);
}

// GPUs that gangs at work hold together with this one, itself included: they have one clock.
std::uint32_t Arbiter::linked_to(std::uint32_t gpu) const {
  std::uint32_t linked = bit(gpu), before = 0;
  while (linked != before) {
    before = linked;
    for (const auto& gang : gangs_)
      if ((gang->wanted_before & linked) != 0) linked |= gang->wanted_before;
  }
  return linked;
}

// Each GPU's clock goes on as it is used. A gang that begins to work on several would stand behind everybody on those whose clock
// is slow, for as long as they differ, and not be let to the others meanwhile: the slow ones are put forward, with whoever works there.
void Arbiter::level_clocks(const Gang& gang) {
  std::int64_t most_ns = std::numeric_limits<std::int64_t>::min();
  for (const Stake& stake : gang.stakes)
    if ((gang.wanted & bit(stake.gpu)) != 0) most_ns = std::max(most_ns, clock_ns(gang, stake.gpu));
  for (const Stake& stake : gang.stakes) {
    const std::int64_t behind_ns = most_ns - clock_ns(gang, stake.gpu);
    if ((gang.wanted & bit(stake.gpu)) == 0 || behind_ns <= gang.price_ns(stake, kUnlevelNs)) continue;
    const std::uint32_t linked = linked_to(stake.gpu);
    for (const auto& other : gangs_) {
      if (other->rank != gang.rank) continue;
      std::uint32_t concerns = other->wanted_before;
      // Who sleeps is put forward where all that it may wake on is.
      if (concerns == 0 && other.get() != &gang)
        for (const Stake& each : other->stakes) concerns |= bit(each.gpu);
      if (concerns != 0 && (concerns & ~linked) == 0)
        other->virtual_ns = std::min(other->virtual_ns + behind_ns, kMostHeldNs);
    }
    for (std::uint32_t g = 0; g < gpu_count_; ++g)
      if ((linked & bit(g)) != 0) clock_ns(gang, g) = std::min(clock_ns(gang, g) + behind_ns, kMostHeldNs);
  }
}

// Who did not want the GPU has not saved anything up.
void Arbiter::catch_up(Gang& gang, std::int64_t credit_ns) {
  std::int64_t least_ns = std::numeric_limits<std::int64_t>::min();
  for (const Stake& stake : gang.stakes) {
    if ((gang.wanted & bit(stake.gpu)) == 0) continue;
    least_ns = std::max(least_ns, clock_ns(gang, stake.gpu) - gang.price_ns(stake, credit_ns));
  }
  gang.virtual_ns = std::max(gang.virtual_ns, least_ns);
}

// Until a turn is settled it is taken to have been used to the full. Then each GPU's clock goes on to where the gang stands that is
// furthest behind there.
void Arbiter::assume(std::int64_t now_ns) {
  struct Behind {
    std::int64_t least_ns = kNever, waking_ns = -kNever;
  };
  std::array<std::array<Behind, kRanks>, kMostGpus> behind{};
  for (const auto& each : gangs_) {
    Gang& gang = *each;
    gang.assumed_ns = 0;
    if (gang.wanted == 0) continue;
    for (const Stake& stake : gang.stakes) gang.assumed_ns += gang.price_ns(stake, stake.assumed_ns(now_ns));
    for (const Stake& stake : gang.stakes) {
      if ((gang.wanted & bit(stake.gpu)) == 0) continue;
      Behind& here = behind[stake.gpu][gang.rank];
      const std::int64_t stands_ns = gang.virtual_ns + gang.assumed_ns;
      if (gang.wakes) here.waking_ns = std::max(here.waking_ns, stands_ns);
      // Who has gaps is behind for want of work, and is no measure of what the others had.
      else if (!gang.has_gaps) here.least_ns = std::min(here.least_ns, stands_ns);
    }
  }
  // Where all are seen to begin at once, nobody has looked for long, and any of them may have worked on behind an open gate:
  // they begin level.
  for (std::uint32_t g = 0; g < gpu_count_; ++g)
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      const auto& [least_ns, waking_ns] = behind[g][rank];
      std::int64_t& clock_ns = gpus_[g].least_ns[rank];
      clock_ns = std::max(clock_ns, least_ns != kNever ? least_ns : waking_ns);
    }
}

// A promise is for now. What its share had while nobody else wanted the GPU, or by its weight, or before it was promised anything,
// is not taken off: as long as it is not ahead of the others it has had no more than its part. And what it had because of the
// promise is no debt when that is taken back.
void Arbiter::keep_promises(std::int64_t now_ns) {
  for (const auto& each : gangs_) {
    Gang& gang = *each;
    gang.guaranteed = false;
    if (gang.wanted == 0) continue;
    std::int64_t most_ns = std::numeric_limits<std::int64_t>::min();
    bool promised = false;
    for (Stake& stake : gang.stakes) {
      if ((gang.wanted & bit(stake.gpu)) == 0) continue;
      const std::int64_t clock_ns = this->clock_ns(gang, stake.gpu), divisor = gang.divisor(stake);
      const std::int64_t ahead_ns =
          std::clamp<std::int64_t>(gang.virtual_ns + gang.assumed_ns - clock_ns, 0, kMostHeldNs / divisor) * divisor;
      stake.budget_ns = std::max(stake.budget_ns, -ahead_ns);
      promised |= stake.guarantee_ppm > 0;
      gang.guaranteed |= stake.guarantee_ppm > 0 && stake.budget_ns > stake.assumed_ns(now_ns);
      most_ns =
          std::max(most_ns, clock_ns + gang.price_ns(stake, kWindowNs - std::min<std::int64_t>(0, stake.budget_ns)));
    }
    if (promised) gang.virtual_ns = std::min(gang.virtual_ns, most_ns);
  }
}

void Arbiter::order() {
  order_.clear();
  for (const auto& gang : gangs_)
    if (gang->wanted != 0) order_.push_back(gang.get());
  const auto key = [](const Gang* gang) {
    return std::tuple(-static_cast<int>(gang->rank), !gang->guaranteed, gang->virtual_ns + gang->assumed_ns,
                      gang->members[0]);
  };
  std::ranges::sort(order_, std::less<>{}, key);
}

// Whether somebody else has a use for a GPU that it works on or holds.
bool Arbiter::contended(const Gang& gang) const {
  for (const Stake& stake : gang.stakes)
    if (((gang.wanted | gang.holds) & bit(stake.gpu)) != 0 &&
        gpus_[stake.gpu].wanted_by > ((gang.wanted >> stake.gpu) & 1))
      return true;
  return false;
}

// A lease ends by time or for want of work, and only where somebody else has a use for it; and when the gang has come to
// work on a GPU that it does not hold, so that all of them open together.
void Arbiter::end_leases(std::int64_t now_ns) {
  for (const auto& gang : gangs_) {
    if (gang->holds == 0) continue;
    bool over = now_ns >= gang->lease_end_ns || gang->wanted == 0;
    // A higher class does not wait for a lease to end.
    for (const Gang* const other : order_) over |= other->rank > gang->rank && (other->wanted & gang->holds) != 0;
    over = over && contended(*gang) && successor(*gang) != gang.get();
    if (over && drains(*gang, now_ns)) continue;
    if (over || (gang->wanted & ~gang->holds) != 0) gang->lease_end_ns = now_ns;
  }
}

const Gang* Arbiter::successor(const Gang& holder) const {
  for (const Gang* const gang : order_)
    if ((gang->wanted & holder.holds) != 0) return gang;
  return nullptr;
}

// What a gang has sent to one GPU waits for what it has yet to send to another, and would go on spinning beside the next
// gang's work. So its turn ends in good order, for a short time: who is ahead stops, who is behind comes up to it.
bool Arbiter::drains(Gang& gang, std::int64_t now_ns) {
  if (std::popcount(gang.holds) < 2) return false;
  bool in_flight = false;
  for (const ShareId id : gang.members)
    for (const Place& place : shares_[id].places) in_flight |= place.use.in_flight_ns > 0;
  if (gang.drain_end_ns == 0) gang.drain_end_ns = now_ns + kDrainNs;
  if (!in_flight || now_ns >= gang.drain_end_ns) return false;
  gang.lease_end_ns = now_ns + kLookNs;
  return true;
}

std::int64_t Arbiter::lease_ns(const Gang& gang) const {
  std::int64_t kernel_ns = 0;
  std::uint32_t crowd = 1;
  for (const ShareId id : gang.members)
    for (const Place& place : shares_[id].places)
      if ((gang.wanted >> place.terms.gpu & 1) != 0) kernel_ns = std::max(kernel_ns, place.use.kernel_ns);
  for (const Stake& stake : gang.stakes) crowd = std::max(crowd, gpus_[stake.gpu].wanted_by);
  if (std::popcount(gang.wanted) > 1) return std::clamp(15 * kernel_ns, kGangLeaseNs, kLongestGangLeaseNs);
  const std::int64_t usual_ns = std::clamp(4 * kernel_ns, kShortestLeaseNs, kLongestLeaseNs);
  return std::min(usual_ns, std::max(kernel_ns, kWindowNs / crowd));
}

bool Arbiter::stays(const Gang& gang, std::int64_t now_ns) const {
  return gang.holds != 0 && (gang.wanted & ~gang.holds) == 0 && (gang.lease_end_ns > now_ns || !contended(gang));
}

// In order: whoever can have all its GPUs gets them. One that has to wait for some of them has the others next; until
// then they are lent.
void Arbiter::grant(std::int64_t now_ns) {
  std::uint32_t taken = 0, lent = 0;
  std::int64_t lent_until_ns = kNever;
  for (const auto& gang : gangs_) {
    if (stays(*gang, now_ns)) taken |= gang->holds;
  }
  for (Gang* const gang : order_) {
    if (stays(*gang, now_ns)) continue;
    if ((gang->wanted & taken) != 0) {
      for (const auto& other : gangs_)
        if ((other->holds & gang->wanted & taken) != 0) lent_until_ns = std::min(lent_until_ns, other->lease_end_ns);
      lent |= gang->wanted & ~taken;
      continue;
    }
    hold(*gang, now_ns);
    if ((gang->wanted & lent) != 0)
      gang->lease_end_ns = std::clamp(lent_until_ns, now_ns + kOverlapNs, gang->lease_end_ns);
    taken |= gang->wanted;
  }
}

void Arbiter::hold(Gang& gang, std::int64_t now_ns) {
  for (const auto& other : gangs_) {
    if (other.get() == &gang || (other->holds & gang.wanted) == 0) continue;
    release(*other);
  }
  release(gang);
  gang.holds = gang.wanted;
  gang.lease_end_ns = now_ns + lease_ns(gang);
  for (const Stake& stake : gang.stakes)
    if ((gang.holds & bit(stake.gpu)) != 0) gpus_[stake.gpu].holder = &gang;
}

// All of them at once: a gang with half of its GPUs only spins.
void Arbiter::release(Gang& gang) {
  gang.holds = 0;
  gang.drain_end_ns = 0;
  for (Gpu& gpu : gpus_)
    if (gpu.holder == &gang) gpu.holder = nullptr;
}

// After the gates are known: a turn is a stretch in which somebody who wanted the GPU found his gate shut.
void Arbiter::record_turns(std::int64_t now_ns) {
  for (const auto& gang : gangs_)
    for (Stake& stake : gang->stakes) {
      const Gpu& gpu = gpus_[stake.gpu];
      const bool keeps_out = gpu.holder == gang.get() && gpu.kept_out > 0;
      // Settled before the time of its marks is forgotten.
      const bool old = stake.open.share != kNoShare && now_ns - stake.open.from_ns > kLongestLeaseNs;
      if (!keeps_out || old) gang->end_turn(stake, now_ns);
      if (keeps_out && stake.open.share == kNoShare)
        stake.open = {gang->members[0], stake.gpu, now_ns, 0, stake.held_ns};
    }
}

std::optional<Turn> Arbiter::next_turn(std::int64_t now_ns) {
  for (const auto& gang : gangs_)
    for (Stake& stake : gang->stakes) {
      while (stake.first != stake.last && now_ns - stake.turns[stake.first % Stake::kTurns].from_ns > kKnownNs)
        ++stake.first;
      if (stake.first == stake.last) continue;
      const Turn& oldest = stake.turns[stake.first % Stake::kTurns];
      if (oldest.to_ns + kTurnSettlesNs > now_ns) continue;
      ++stake.first;
      return oldest;
    }
  return std::nullopt;
}

void Arbiter::settle(const Turn& turn, std::int64_t idle_ns) {
  Gang* const gang = turn.share < shares_.size() ? shares_[turn.share].gang : nullptr;
  Stake* const stake = gang == nullptr ? nullptr : gang->stake(turn.gpu);
  if (stake != nullptr) gang->charge(*stake, std::clamp<std::int64_t>(idle_ns, 0, turn.to_ns - turn.from_ns));
}

std::int64_t Arbiter::virtual_time_ns(ShareId share) const { return shares_[share].gang->virtual_ns; }

// The holder waits for the last kernel of whoever was before it.
std::int64_t Arbiter::protected_look_ns(const Gpu& gpu, std::int64_t now_ns) const {
  if (gpu.holder != nullptr)
    for (const ShareId id : gpu.holder->members)
      for (const Place& place : shares_[id].places)
        if (&gpus_[place.terms.gpu] == &gpu && is_closed(place.gate) && place.engaged(now_ns)) return now_ns + kLookNs;
  return gpu.protected_until_ns;
}

// Whether anybody who wants a GPU that it holds finds his gate shut. Where all the others' kernels fit into its pauses, the end of
// its lease is soon enough to see that it has stopped.
bool Arbiter::keeps_out(const Gang& gang) const {
  return std::ranges::any_of(gang.stakes, [&](const Stake& stake) {
    return (gang.holds & bit(stake.gpu)) != 0 && gpus_[stake.gpu].kept_out > 0;
  });
}

void Arbiter::pay_for_told_looks(std::int64_t now_ns) {
  for (Gpu& gpu : gpus_) {
    if (now_ns >= gpu.told_look_ns) gpu.told_paid_ns = std::max(gpu.told_paid_ns, now_ns - kToldCreditNs) + kToldLookNs;
    gpu.told_look_ns = kNever;
  }
}

std::int64_t Arbiter::wake_at_ns(std::int64_t now_ns) {
  std::int64_t at_ns = kNever;
  const auto by = [&](std::int64_t when_ns) { at_ns = std::min(at_ns, std::max(when_ns, now_ns + kLeastWakeNs)); };
  const auto by_its_word = [&](std::uint32_t gpu, std::int64_t when_ns) {
    const std::int64_t paid_ns = std::max(when_ns, gpus_[gpu].told_paid_ns);
    gpus_[gpu].told_look_ns = std::min(gpus_[gpu].told_look_ns, paid_ns);
    by(paid_ns);
  };
  for (const Share& share : shares_)
    for (const Place& place : share.places)
      if (place.use.wanting && place.throttled() && place.gate != Gate::open)
        by_its_word(place.terms.gpu, now_ns + place.use.ceiling_ns);
  for (const Gang* const gang : order_) {
    if (!contended(*gang)) continue;
    if (gang->holds != 0 && !keeps_out(*gang)) {
      by(gang->lease_end_ns);
    } else if (gang->holds != 0) {
      // Who always has work ready leaves enough of it in flight to hide the hand-over, unless its kernels are short; and the end of
      // a lease is soon enough to see that it has none any more. Each look costs a wake-up.
      bool steady = true;
      std::int64_t kernel_ns = kNever;
      for (const ShareId id : gang->members)
        for (const Place& place : shares_[id].places) {
          if (!place.engaged(now_ns)) continue;
          steady &= place.steady(now_ns);
          kernel_ns = std::min(kernel_ns, place.use.kernel_ns);
        }
      const std::int64_t early_ns = gang->lease_end_ns - (steady && kernel_ns >= kOverlapNs ? 0 : kOverlapNs);
      const std::int64_t ends_ns = early_ns > now_ns ? early_ns : gang->lease_end_ns;
      by(ends_ns);
      // When it could be known that it has no work.
      std::int64_t idle_ns = 0;
      for (const ShareId id : gang->members)
        for (const Place& place : shares_[id].places)
          if (place.engaged(now_ns))
            idle_ns = std::max(idle_ns,
                               std::max(place.active_ns, now_ns) + place.use.in_flight_ns + place.patience_ns(now_ns));
      if (idle_ns > now_ns && !(steady && idle_ns + kIdleLookNs > ends_ns))
        by_its_word(static_cast<std::uint32_t>(std::countr_zero(gang->holds)), idle_ns);
    } else if (gang->stakes.size() > 1) {
      by(now_ns + 2 * kOverdueNs);
    }
    for (const Stake& stake : gang->stakes) {
      if (stake.first != stake.last) by(stake.turns[stake.first % Stake::kTurns].to_ns + 4 * kTurnSettlesNs);
      if (gpus_[stake.gpu].protected_until_ns > now_ns) by(protected_look_ns(gpus_[stake.gpu], now_ns));
    }
  }
  return at_ns;
}

}  // namespace headgate::schedule
