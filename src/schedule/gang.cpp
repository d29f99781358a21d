#include "schedule/gang.hpp"

#include <algorithm>

namespace headgate::schedule {
namespace {

constexpr std::int64_t kFarNs = kMostHeldNs;

}  // namespace

Use sane(const Use& use) {
  Use made = use;
  for (std::int64_t* total : {&made.held_ns, &made.dry_ns}) *total = std::clamp(*total, -kFarNs, kFarNs);
  for (std::int64_t* now : {&made.in_flight_ns, &made.kernel_ns, &made.ceiling_ns})
    *now = std::clamp<std::int64_t>(*now, 0, kMostReportedNs);
  made.processes = std::clamp(made.processes, 1u, kMostProcesses);
  return made;
}

std::int64_t Place::credible_ns(std::int64_t held_ns, std::int64_t now_ns) {
  const std::int64_t passed_ns = observed_ns == 0 ? 0 : std::clamp<std::int64_t>(now_ns - observed_ns, 0, kFarNs);
  const std::int64_t most_ns = passed_ns + late_ns;
  const std::int64_t credible = std::clamp(held_ns, -charged_ns, most_ns);
  late_ns = std::min(kMostLateNs, most_ns - credible);
  charged_ns = std::min(kMostLateNs, charged_ns + credible);
  observed_ns = now_ns;
  return credible;
}

std::int64_t Place::linger_ns() const { return std::clamp(2 * gap_ns, kLeastLingerNs, kMostLingerNs); }

std::int64_t Place::patience_ns(std::int64_t now_ns) const {
  if (use.ceiling_ns > 0) return 0;
  if (now_ns - throttled_ns < kSteadyNs) return kLeastLingerNs;
  return gap_ns > 0 ? linger_ns() : kMostLingerNs;
}

bool Place::engaged(std::int64_t now_ns) const {
  if (terms.priority_class == Class::latency) return false;
  if (throttled()) return false;
  return use.wanting || use.in_flight_ns > 0 || now_ns - active_ns < linger_ns();
}

void Place::learn_gap(std::int64_t now_ns) {
  const std::int64_t window_ns = now_ns - gap_since_ns;
  if (window_ns < kGapWindowNs) return;
  const std::int64_t dry_ns = std::clamp<std::int64_t>(use.dry_ns - gap_dry_ns, 0, window_ns);
  const auto spells = static_cast<std::int64_t>(use.dry_spells - gap_spells);
  const bool quiet = window_ns > 20 * kGapWindowNs;
  if (quiet || spells <= 0 || dry_ns * 50 < window_ns) gap_ns = 0;
  else gap_ns = dry_ns / spells;
  if (quiet || gap_ns > 0) paused_ns = now_ns;
  if (gap_ns > kMostLingerNs / 2) gap_ns = 0;
  gap_since_ns = now_ns;
  gap_dry_ns = use.dry_ns;
  gap_spells = use.dry_spells;
}

std::int64_t Stake::assumed_ns(std::int64_t now_ns) const {
  std::int64_t turns_ns = 0, held_at_start_ns = held_ns;
  if (open.share != kNoShare) {
    turns_ns += now_ns - open.from_ns;
    held_at_start_ns = open.held_at_start_ns;
  }
  for (std::uint32_t i = first; i != last; ++i) turns_ns += turns[i % kTurns].to_ns - turns[i % kTurns].from_ns;
  if (first != last) held_at_start_ns = turns[first % kTurns].held_at_start_ns;
  return std::max<std::int64_t>(0, turns_ns - (held_ns - held_at_start_ns));
}

Stake* Gang::stake(std::uint32_t gpu) {
  for (Stake& each : stakes)
    if (each.gpu == gpu) return &each;
  return nullptr;
}

std::int64_t Gang::divisor(const Stake& stake) const {
  return std::max<std::int64_t>(1, stake.weight * std::max(1, std::popcount(wanted | holds)));
}

std::int64_t Gang::price_ns(const Stake& stake, std::int64_t gpu_ns) const { return gpu_ns / divisor(stake); }

void Gang::charge(Stake& stake, std::int64_t gpu_ns) {
  const std::int64_t all_ns = gpu_ns + rest_ns;
  rest_ns = all_ns % divisor(stake);
  virtual_ns = std::clamp(virtual_ns + all_ns / divisor(stake), -kFarNs, kFarNs);
  stake.budget_ns = std::clamp(stake.budget_ns - gpu_ns, -kFarNs, kFarNs);
}

void Gang::end_turn(Stake& stake, std::int64_t now_ns) {
  if (stake.open.share == kNoShare) return;
  stake.open.to_ns = now_ns;
  if (stake.last - stake.first == Stake::kTurns) ++stake.first;
  stake.turns[stake.last++ % Stake::kTurns] = stake.open;
  stake.open.share = kNoShare;
}

}  // namespace headgate::schedule
