#include "schedule/arbiter.hpp"

#include <algorithm>
#include <utility>

namespace headgate::schedule {

Arbiter::Arbiter(std::uint32_t gpus) : gpu_count_(std::min(gpus, kMaxGpus)) {}
Arbiter::~Arbiter() = default;

void Arbiter::set_policy(std::uint32_t gpu, Policy policy) { gpus_[gpu].policy = policy; }

ShareId Arbiter::add_share(const ShareTerms& terms) {
  const auto free = std::ranges::find(gang_of_, nullptr);
  const auto id = static_cast<ShareId>(free - gang_of_.begin());
  if (free == gang_of_.end()) gang_of_.emplace_back();
  auto found =
      std::ranges::find_if(gangs_, [&](const auto& gang) { return !terms.gang.empty() && gang->name == terms.gang; });
  if (found == gangs_.end()) {
    found = gangs_.insert(gangs_.end(), std::make_unique<Gang>());
    (*found)->name = terms.gang;
  }
  Gang& gang = **found;
  gang_of_[id] = &gang;
  gang.members.push_back(id);
  for (std::size_t i = 0; i < terms.gpus.size(); ++i) {
    const Terms& each = terms.gpus[i];
    GangOnGpu* stake = gang.stake(each.gpu);
    if (stake == nullptr) {
      stake = &gang.stakes.emplace_back();
      stake->gang = &gang;
      stake->gpu = each.gpu;
      if (i < terms.virtual_times_ns.size())
        stake->virtual_ns = std::clamp(terms.virtual_times_ns[i], -kMaxHeldNs, kMaxHeldNs);
    }
    ShareOnGpu& place = stake->places.emplace_back();
    place.share = id;
    place.terms = each;
    stake->add_up_terms();
    // A share that slept under an earlier arbiter has no more credit than it had there.
    for (std::int64_t& least_ns : gpus_[each.gpu].least_ns) least_ns = std::max(least_ns, stake->virtual_ns);
  }
  std::size_t places = 0;
  for (const GangOnGpu& stake : stakes()) places += stake.places.size();
  order_.reserve(places);
  changes_.reserve(places);
  return id;
}

void Arbiter::adopt(ShareId id, std::uint32_t gpu, const Use& use, Gate gate) {
  GangOnGpu* const stake = stake_of(id, gpu);
  ShareOnGpu* const place = stake == nullptr ? nullptr : stake->place(id);
  if (place == nullptr) return;
  place->use = sane(use);
  place->gate = gate;
  place->batch_ns = -1;  // unknown
}

void Arbiter::change_share(ShareId id, std::span<const Terms> terms) {
  for (const Terms& each : terms) {
    GangOnGpu* const stake = stake_of(id, each.gpu);
    ShareOnGpu* const place = stake == nullptr ? nullptr : stake->place(id);
    if (place == nullptr) continue;
    const auto weight = static_cast<double>(stake->weight);
    place->terms = each;
    stake->add_up_terms();
    // Its distance from the others remains the same GPU time.
    const double ratio = weight / static_cast<double>(std::max<std::int64_t>(1, stake->weight));
    const auto scaled_ns = [ratio](std::int64_t ahead_ns) {
      return static_cast<std::int64_t>(std::clamp(static_cast<double>(ahead_ns) * ratio, -1e17, 1e17));
    };
    const std::int64_t left_ns = stake->clock_left_ns ? scaled_ns(stake->virtual_ns - *stake->clock_left_ns) : 0;
    stake->virtual_ns = clock_ns(*stake) + scaled_ns(stake->virtual_ns - clock_ns(*stake));
    if (stake->clock_left_ns) stake->clock_left_ns = stake->virtual_ns - left_ns;
  }
}

void Arbiter::remove_share(ShareId id) {
  Gang* const gang = std::exchange(gang_of_[id], nullptr);
  for (GangOnGpu& stake : gang->stakes) {
    std::erase_if(stake.places, [id](const ShareOnGpu& place) { return place.share == id; });
    stake.add_up_terms();
  }
  std::erase(gang->members, id);
  if (!gang->members.empty()) return;
  release(*gang, ~0u);
  std::erase_if(gangs_, [gang](const auto& each) { return each.get() == gang; });
}

void Arbiter::observe(ShareId id, std::uint32_t gpu, const Use& reported, std::int64_t now_ns) {
  GangOnGpu* const stake = stake_of(id, gpu);
  ShareOnGpu* const place = stake == nullptr ? nullptr : stake->place(id);
  if (place == nullptr) return;
  const Use use = sane(reported);
  // Time that turns out to be another share's is given back.
  const std::int64_t reported_ns = was_away(now_ns) ? 0 : use.held_ns - place->use.held_ns;
  const std::int64_t held_ns = place->credible_ns(reported_ns, now_ns);
  const std::int64_t back_ns = was_away(now_ns) ? 0 : use.given_back_ns - place->use.given_back_ns;
  const bool requested = use.requests != place->use.requests;
  const bool was_overdue = place->overdue();
  const bool was_idle = place->use.in_flight_ns == 0;
  // What a lower ceiling kept from it is no credit under a higher one.
  if (use.ceiling_ppm > place->use.ceiling_ppm) stake->virtual_ns = std::max(stake->virtual_ns, clock_ns(*stake));
  place->use = use;
  const std::int64_t oldest_ns = now_ns - use.oldest_age_ns;
  if (std::abs(std::exchange(place->oldest_ns, oldest_ns) - oldest_ns) > 1'000) place->held_since_oldest_ns = 0;
  else place->held_since_oldest_ns = std::max<std::int64_t>(0, place->held_since_oldest_ns + held_ns);
  if (use.in_flight_ns > 0 && !place->overdue())
    place->expected_ns = was_overdue || was_idle ? use.in_flight_ns : std::max(place->expected_ns, use.in_flight_ns);
  if (!was_overdue) place->overdue_since_ns = now_ns;
  stake->held_ns = std::clamp(stake->held_ns + held_ns, -kMaxHeldNs, kMaxHeldNs);
  // What it has while no other wants the GPU is free. What is given back then was charged beside others.
  const std::int64_t returned_ns = -std::clamp<std::int64_t>(std::max(back_ns, -held_ns), 0, place->paid_ns);
  const std::int64_t charged_ns = is_sought(*stake) ? std::max(held_ns, -place->paid_ns) : returned_ns;
  place->paid_ns = std::clamp<std::int64_t>(place->paid_ns + charged_ns, 0, kMaxLateNs);
  stake->ahead_ns =
      std::clamp(stake->ahead_ns + (stake->seeks() ? charged_ns : returned_ns), -kMaxAheadNs, kMaxAheadNs);
  const bool latency = place->terms.priority_class == Class::latency;
  // What it had as latency class is no debt in another class.
  if (!latency) stake->charge(charged_ns, charged_ns < 0 ? stake->was_reserved() : stake->reserved);
  if (requested || use.wanting || use.in_flight_ns > 0) place->active_ns = now_ns;
  place->learn_gap(now_ns);
  place->look_at_ceiling();
  if (use.ceiling_ns > 0 || place->rests) place->throttled_ns = now_ns;
  if (requested && latency) gpus_[gpu].protected_until_ns = now_ns + kProtectedNs;
}

Decision Arbiter::decide(std::int64_t now_ns) {
  if (was_away(now_ns))
    for (GangOnGpu& stake : stakes()) stake.open.share = kNoShare;
  pay_for_told_looks(now_ns);
  refresh(now_ns);
  order(now_ns);
  end_leases(now_ns);
  grant(now_ns);
  changes_.clear();
  set_gates(now_ns);
  record_turns(now_ns);
  due_ns_ = wake_at_ns(now_ns);
  // What shares do on another GPU until then is not known.
  const bool is_hand_over = std::ranges::count_if(gpus_, [](const Gpu& gpu) { return gpu.wanted_by > 1; }) == 1 &&
                            std::ranges::any_of(gpus_, [this](const Gpu& gpu) {
                              return gpu.hand_over_ns == due_ns_ && gpu.protected_until_ns < due_ns_;
                            });
  return {changes_, due_ns_, is_hand_over};
}

std::int64_t Arbiter::virtual_time_ns(ShareId share, std::uint32_t gpu) const {
  const GangOnGpu* const stake = stake_of(share, gpu);
  return stake == nullptr ? 0 : stake->virtual_ns;
}

std::int64_t Arbiter::behind_ns(ShareId share, std::uint32_t gpu) const {
  const GangOnGpu* const stake = stake_of(share, gpu);
  return stake == nullptr ? 0 : std::max<std::int64_t>(0, -stake->ahead_ns);
}

std::int64_t Arbiter::wanted_ns(ShareId share, std::uint32_t gpu) const {
  GangOnGpu* const stake = stake_of(share, gpu);
  const ShareOnGpu* const place = stake == nullptr ? nullptr : stake->place(share);
  return place == nullptr ? 0 : place->wanted_ns;
}

}  // namespace headgate::schedule
