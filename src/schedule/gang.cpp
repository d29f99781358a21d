#include "schedule/gang.hpp"

#include <algorithm>
#include <utility>

namespace headgate::schedule {
namespace {

constexpr std::int64_t kFarNs = kMaxHeldNs;

}  // namespace

Use sane(const Use& use) {
  Use made = use;
  for (std::int64_t* total : {&made.held_ns, &made.given_back_ns, &made.dry_ns})
    *total = std::clamp(*total, -kFarNs, kFarNs);
  for (std::int64_t* now : {&made.in_flight_ns, &made.oldest_age_ns, &made.kernel_ns, &made.ceiling_ns})
    *now = std::clamp<std::int64_t>(*now, 0, kMaxReportedNs);
  made.credit_ns = std::clamp<std::int64_t>(made.credit_ns, 0, kNoCeiling);
  made.ceiling_ppm = std::clamp(made.ceiling_ppm, 1u, 1'000'000u);
  made.processes = std::clamp(made.processes, 1u, kMaxProcesses);
  return made;
}

std::int64_t ShareOnGpu::credible_ns(std::int64_t held_ns, std::int64_t now_ns) {
  const std::int64_t passed_ns = observed_ns == 0 ? 0 : std::clamp<std::int64_t>(now_ns - observed_ns, 0, kFarNs);
  const std::int64_t most_ns = passed_ns + late_ns;
  const std::int64_t credible = std::clamp(held_ns, -charged_ns, most_ns);
  late_ns = std::min(kMaxLateNs, most_ns - credible);
  charged_ns = std::min(kMaxLateNs, charged_ns + credible);
  observed_ns = now_ns;
  return credible;
}

std::int64_t ShareOnGpu::linger_ns() const {
  return long_gaps ? 0 : std::clamp(2 * gap_ns, kMinLingerNs, kMaxLingerNs);
}

std::int64_t ShareOnGpu::patience_ns(std::int64_t now_ns) const {
  if (use.ceiling_ns > 0) return 0;
  // Before a long pause, early enough for the next share's first kernel.
  if (long_gaps) return use.in_flight_ns > kMinLingerNs ? -kMinLingerNs : kMinLingerNs;
  if (now_ns - throttled_ns < kSteadyNs) return kMinLingerNs + (steady(now_ns) ? allowed_ns() : 0);
  return gap_ns > 0 ? linger_ns() : kMaxLingerNs;
}

std::int64_t ShareOnGpu::allowed_ns() const {
  if (use.ceiling_ppm >= 1'000'000) return kMaxReportedNs;
  return std::min(use.credit_ns, kMaxReportedNs) * use.ceiling_ppm / (1'000'000 - use.ceiling_ppm);
}

bool ShareOnGpu::engaged(std::int64_t now_ns) const {
  if (terms.priority_class == Class::latency) return false;
  // Long work that was let start counts as its turns, whatever its ceiling means for the next.
  if (throttled() || rests || early) return use.in_flight_ns > 0 && use.kernel_ns >= kLongKernelNs;
  return use.wanting || use.in_flight_ns > 0 || now_ns - active_ns < linger_ns();
}

std::int64_t ShareOnGpu::outlasts_in_ns() const {
  // Each of its processes has the GPU for a kernel, or for a slice, before the oldest one's turn comes again.
  const std::int64_t crowd = std::max(1u, use.processes);
  const std::int64_t need_ns = use.kernel_ns * crowd + (crowd - 1) * kSliceNs;
  const std::int64_t most_ns = kRankWaitsNs + 2 * need_ns;
  // What it held is known late. That of several processes may well be another's slices, so it has to be known.
  const std::int64_t untold_ns = crowd == 1 ? kTurnSettlesNs : 0;
  return std::max<std::int64_t>(0, most_ns - std::min(use.oldest_age_ns, held_since_oldest_ns + untold_ns));
}

void ShareOnGpu::learn_gap(std::int64_t now_ns) {
  const std::int64_t window_ns = now_ns - gap_since_ns;
  if (window_ns < kGapWindowNs) return;
  const std::int64_t dry_ns = std::clamp<std::int64_t>(use.dry_ns - gap_dry_ns, 0, window_ns);
  const auto spells = static_cast<std::int64_t>(use.dry_spells - gap_spells);
  const bool quiet = window_ns > 20 * kGapWindowNs;
  if (quiet || spells <= 0 || dry_ns * 50 < window_ns) gap_ns = 0;
  else gap_ns = dry_ns / spells;
  if (quiet || gap_ns > 0) paused_ns = dry_seen_ns = now_ns;
  if (gap_ns > 0) long_gaps = gap_ns > kMaxLingerNs / 2;
  else if (steady(now_ns)) long_gaps = false;
  if (long_gaps) gap_ns = 0;
  gap_since_ns = now_ns;
  gap_dry_ns = use.dry_ns;
  gap_spells = use.dry_spells;
}

// A look may come long after the end of its work. How long a pause was its process tells when it asks again: not if
// another process of the share worked meanwhile.
void ShareOnGpu::count_wanted(std::int64_t now_ns, std::int64_t passed_ns, bool seeks) {
  const std::int64_t counted_ns = sought ? std::min(passed_ns, kBudgetWindowNs) : 0;
  unsought_ns = std::min(kMaxHeldNs, unsought_ns + passed_ns - counted_ns);
  const std::int64_t dry_ns = use.dry_ns - std::exchange(told_dry_ns, use.dry_ns);
  const bool single = std::max(use.processes, std::exchange(told_processes, use.processes)) <= 1;
  if (single && now_ns - dry_ns >= worked_ns)
    pauses_ns = std::min(kBudgetWindowNs, pauses_ns + std::max<std::int64_t>(0, dry_ns - unsought_ns));
  const std::int64_t off_ns = std::min(pauses_ns, counted_ns);
  pauses_ns -= off_ns;
  wanted_ns += counted_ns - off_ns;
  if (use.wanting || use.in_flight_ns > 0) worked_ns = now_ns;
  if (seeks) unsought_ns = 0;
  sought = seeks;
}

void GangOnGpu::assume(std::int64_t now_ns) {
  std::int64_t turns_ns = 0, held_at_start_ns = held_ns;
  if (open.share != kNoShare) {
    turns_ns += now_ns - open.from_ns;
    held_at_start_ns = open.held_at_start_ns;
  }
  for (std::uint32_t i = first; i != last; ++i) turns_ns += turns[i % kTurns].to_ns - turns[i % kTurns].from_ns;
  if (first != last) held_at_start_ns = oldest_turn().held_at_start_ns;
  assumed_ns = std::max<std::int64_t>(0, turns_ns - (held_ns - held_at_start_ns));
}

void GangOnGpu::charge(std::int64_t gpu_ns, bool by_promise) {
  if (by_promise) {
    budget_ns = std::clamp(budget_ns - gpu_ns, -kFarNs, kFarNs);
    return;
  }
  const std::int64_t divisor = std::max<std::int64_t>(1, weight), all_ns = gpu_ns + rest_ns;
  rest_ns = all_ns % divisor;
  virtual_ns = std::clamp(virtual_ns + all_ns / divisor, -kFarNs, kFarNs);
}

void GangOnGpu::earn(std::int64_t passed_ns, bool contended) {
  constexpr std::int64_t kWhole = 1'000'000;
  const std::int64_t earned_ns = passed_ns * guarantee_ppm / kWhole;
  if (seeks() && contended) budget_ns = std::min(budget_ns + earned_ns, kBudgetWindowNs * guarantee_ppm / kWhole);
  else if (budget_ns < 0) budget_ns = std::min<std::int64_t>(budget_ns + earned_ns, 0);
  else if (!seeks()) budget_ns = std::min(budget_ns, kIdleBudgetNs);
}

void GangOnGpu::end_turn(std::int64_t now_ns) {
  if (open.share == kNoShare) return;
  open.to_ns = now_ns;
  if (last - first == kTurns) ++first;
  turns[last++ % kTurns] = open;
  open.share = kNoShare;
}

void GangOnGpu::pay_by(bool promise, std::int64_t now_ns) {
  assume(now_ns);
  charge(assumed_ns, reserved);
  charge(-assumed_ns, promise);
  end_turn(now_ns);
  reserved = promise;
}

void GangOnGpu::add_up_terms() {
  weight = guarantee_ppm = 0;
  for (const ShareOnGpu& each : places) weight += each.terms.weight, guarantee_ppm += each.terms.guarantee_ppm;
}

std::int64_t GangOnGpu::in_flight_ns() const {
  std::int64_t most_ns = 0;
  for (const ShareOnGpu& each : places) most_ns = std::max(most_ns, each.use.in_flight_ns);
  return most_ns;
}

std::int64_t GangOnGpu::kernel_ns() const {
  std::int64_t most_ns = 0;
  for (const ShareOnGpu& each : places) most_ns = std::max(most_ns, each.use.kernel_ns);
  return most_ns;
}

std::int64_t Gang::in_flight_ns() const {
  std::int64_t most_ns = 0;
  for (const GangOnGpu& each : stakes) most_ns = std::max(most_ns, each.in_flight_ns());
  return most_ns;
}

std::uint32_t Gang::wanted() const {
  std::uint32_t bits = 0;
  for (const GangOnGpu& each : stakes) bits |= each.wants ? each.bit() : 0;
  return bits;
}

void Gang::see_turn_end(bool seems_to_wait, std::int64_t now_ns) {
  waits_seen = std::max(0, waits_seen + (seems_to_wait ? 1 : -1));
  if (waits_seen < kWaitsOfRanks) return;
  waits_seen = 0;
  const bool again = now_ns - together_until_ns < kTogetherForNs;
  together_for_ns = std::clamp(again ? 2 * together_for_ns : 0, kTogetherForNs, kLongestTogetherNs);
  together_until_ns = now_ns + together_for_ns;
}

}  // namespace headgate::schedule
