// The arbiter of a modelled node: what it observes, when it wakes, and the gates that it writes.
#include <algorithm>
#include <utility>
#include <vector>

#include "exactness/node_tenant.hpp"
#include "guest/ledger/gate.hpp"

namespace headgate::limiter::model {
namespace {

constexpr std::int64_t kDecisionCostNs = 8'000;  // of the arbiter's thread: read pages, decide, write gates

}  // namespace

void Node::ring() {
  if (gone_) return;
  rung_ = true;
  const std::int64_t at_ns = clock_ns + late();
  if (at_ns >= arbiter_due_ns_) return;
  arbiter_due_ns_ = at_ns;
  turn(0, at_ns);
}

schedule::Use Node::use_of(const Entry& entry, std::int64_t now_ns) const {
  schedule::Use use{.held_ns = static_cast<std::int64_t>(entry.account->held_ns.load()),
                    .given_back_ns = static_cast<std::int64_t>(entry.account->neighbours_ns.load()),
                    .in_flight_ns = 0,
                    .oldest_age_ns = 0,
                    .kernel_ns = entry.account->kernel_ns.load(),
                    .dry_ns = entry.dry_ns,
                    .dry_spells = entry.dry_spells,
                    .requests = entry.requests,
                    .ceiling_ns = 0,
                    .credit_ns = schedule::kNoCeiling,
                    .ceiling_ppm = ledger::kWholeGpu,
                    .wanting = false};
  for (const std::size_t index : entry.tenants) {
    const Tenant& tenant = *tenants_[index];
    if (tenant.dead) continue;
    if (tenant.pace.busy_streams.load() > 0)
      use.in_flight_ns = std::max({use.in_flight_ns, std::int64_t{1'000}, tenant.pace.busy_until_ns.load() - now_ns});
    if (const std::int64_t oldest_ns = tenant.pace.oldest_ns.load(); oldest_ns != 0)
      use.oldest_age_ns = std::max(use.oldest_age_ns, now_ns - oldest_ns);
    use.processes += tenant.wanting || tenant.pace.busy_streams.load() > 0;
    use.wanting |= tenant.wanting;
    if (tenant.ceiling == kNoCeiling) continue;
    const std::int64_t left_ns = ledger::paid_until_ns(*entry.account) - now_ns;
    use.ceiling_ns = std::max<std::int64_t>(0, left_ns);
    use.credit_ns = std::max<std::int64_t>(0, -left_ns);
    use.ceiling_ppm = tenant.ceiling;
  }
  if (use.in_flight_ns > 0 && now_ns < entry.account->several_until_ns.load())
    use.in_flight_ns = std::max<std::int64_t>(1'000, entry.account->sent_until_ns.load() - now_ns);
  return use;
}

// Counts time that no share's coverage has marked, in microseconds' granularity.
std::int64_t Node::idle_ns(std::uint32_t gpu, std::int64_t from_ns, std::int64_t to_ns) const {
  constexpr std::int64_t kWordNs = ledger::kCoverageNs * ledger::kCoverageBits;
  std::int64_t idle = 0;
  for (std::int64_t word = from_ns / kWordNs; word * kWordNs < to_ns; ++word) {
    std::uint64_t marked = 0;
    for (const Entry& entry : entries_)
      if (entry.gpu == gpu) marked |= entry.account->coverage.word(word);
    for (std::int64_t i = 0; i < ledger::kCoverageBits; ++i) {
      const std::int64_t at_ns = word * kWordNs + i * ledger::kCoverageNs;
      if (at_ns >= from_ns && at_ns < to_ns && (marked >> i & 1) == 0) idle += ledger::kCoverageNs;
    }
  }
  return idle;
}

// Does what Arbitration does.
void Node::tell_boards() {
  if (!board_times_.begin(clock_ns)) return;
  std::vector<std::uint32_t> there(setup_.gpus), at_work(setup_.gpus);
  for (Entry& entry : entries_) {
    ++there[entry.gpu];
    if (!node::GpuBoard::works(*entry.marks, clock_ns, ledger::kSeatIdleNs)) continue;
    boards_[entry.gpu].board.bring(*entry.marks, entry.share + 1u, clock_ns);
    ++at_work[entry.gpu];
  }
  for (std::uint32_t g = 0; g < setup_.gpus; ++g) {
    boards_[g].board.told(clock_ns);
    board_times_.saw(there[g], at_work[g], setup_.policy == schedule::Policy::off);
  }
}

void Node::sleep_until(std::int64_t at_ns) {
  if (at_ns == schedule::kNever) return;
  arbiter_due_ns_ = std::max(at_ns, clock_ns) + late();
  turn(0, arbiter_due_ns_);
}

void Node::arbitrate() {
  arbiter_due_ns_ = schedule::kNever;
  if (gone_) return;
  if (!std::exchange(rung_, false) && clock_ns < decision_due_ns_) {  // only the boards are due
    tell_boards();
    return sleep_until(std::min(decision_due_ns_, board_times_.due_ns()));
  }
  ++decisions;
  look(std::max(clock_ns, decided_ns_));
  // Like Arbitration while a launch waits.
  if (std::ranges::any_of(tenants_, [](const auto& tenant) { return tenant->wanting; }))
    decision_due_ns_ = std::min(decision_due_ns_, clock_ns + ledger::kTurnLookNs);
  tell_boards();
  sleep_until(std::min(decision_due_ns_, board_times_.due_ns()));
}

// Like Arbitration::look_for().
void Node::look(std::int64_t now_ns) {
  decided_ns_ = now_ns;
  for (Entry& entry : entries_) {
    arbiter_->observe(entry.id, entry.gpu, use_of(entry, now_ns), now_ns);
    entry.told = false;
  }
  while (const auto due = arbiter_->next_turn(clock_ns)) {
    const auto idle = idle_ns(due->gpu, due->from_ns, due->to_ns);
    arbiter_->settle(*due, idle);
  }
  const schedule::Decision decision = arbiter_->decide(now_ns);
  for (Entry& entry : entries_) {
    entry.virtual_ns = arbiter_->virtual_time_ns(entry.id, entry.gpu);
    const std::int64_t behind_ms = ledger::behind_ms(arbiter_->behind_ns(entry.id, entry.gpu));
    for (const std::size_t index : entry.tenants) tenants_[index]->pace.behind_ns = behind_ms * 1'000'000;
  }
  clock_ns += kDecisionCostNs;
  for (const schedule::Change& change : decision.changes) {
    ++gate_writes;
    for (Entry& entry : entries_) {
      if (entry.id != change.share || entry.gpu != change.gpu) continue;
      entry.gate = change.gate;
      entry.batch_ns = change.batch_ns;
      entry.opens_ns = change.opens_ns;
      if (entry.gate == schedule::Gate::shut || entry.gate == schedule::Gate::queued) continue;
      wake_parked(entry);
    }
  }
  decision_due_ns_ = decision.wake_at_ns;
  if (decision.is_hand_over && decision.wake_at_ns - clock_ns <= schedule::kMaxUnwatchedNs) look(decision.wake_at_ns);
}

}  // namespace headgate::limiter::model
