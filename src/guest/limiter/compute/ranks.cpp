#include "guest/limiter/compute/ranks.hpp"

#include <algorithm>

#include "guest/ledger/slot.hpp"

namespace headgate::limiter {
namespace {

using std::memory_order_relaxed;

constexpr std::int64_t kOverdueNs =
    150'000;  // estimates are rarely so wrong, and spinning longer costs more than a look
constexpr std::int64_t kNoRankNs = 1'000'000'000;  // so late is no rank that waits: it is endless, stopped or dead
constexpr std::int64_t kRankLookNs = 100'000;
constexpr std::int64_t kRanksForNs = 1'000'000'000;

// Ranks have waited for each other lately: all GPUs' gates open at one moment, whoever works on them. For less long, because it
// may have been another's estimate that was wrong.
constexpr std::int64_t kRanksPatienceNs = 5'000'000;
std::atomic<std::int64_t> ranks_until_ns{0};

// When the share's work on that GPU should be done, by whoever reported it (turns.cpp): the earliest; 0: there is none.
std::int64_t due_ns(std::uint32_t device, std::int64_t now_ns) {
  std::int64_t earliest = 0;
  const std::uint32_t seen = std::min(session.usage->slots_seen.load(std::memory_order_acquire), ledger::kMaxSlots);
  for (std::uint32_t i = 0; i < seen; ++i) {
    const ledger::Slot& slot = session.usage->slots[i];
    if (static_cast<ledger::SlotKind>(slot.life.load(memory_order_relaxed) & 0xf) != ledger::SlotKind::live) continue;
    const std::int64_t until_ns = slot.devices[device].work_until_ns.load(memory_order_relaxed);
    if (until_ns == 0 || now_ns - until_ns > kNoRankNs) continue;
    if (earliest == 0 || until_ns < earliest) earliest = until_ns;
  }
  return earliest;
}

}  // namespace

std::int64_t ranks_wait_ns(const StreamMeter& stream, std::int64_t asked_ns) {
  const std::int64_t now_ns = port.now_ns();
  const bool lately = now_ns < ranks_until_ns.load(memory_order_relaxed);
  const std::int64_t patience_ns = asked_ns + (lately ? kRanksPatienceNs : kPatienceNs) - now_ns;
  std::int64_t wait_ns = 0;
  for (std::uint32_t d = 0; d < metered.device_count && patience_ns > 0; ++d) {
    if (d == stream.context->device) continue;
    if (!lately && metered.paces[d].busy_streams.load(memory_order_relaxed) == 0) continue;
    wait_ns = std::max(wait_ns, ledger::paid_until_ns(session.usage->compute[d]) - now_ns);
  }
  return std::min({wait_ns, std::max<std::int64_t>(0, patience_ns), kLongestSleepNs});
}

bool rank_spins_for(const StreamMeter& stream) {
  const ContextMeter& context = *stream.context;
  const Pace& pace = *context.pace;
  const std::int64_t now_ns = port.now_ns();
  // What was let through last has had its effect, and it was not enough.
  if (pace.busy_streams.load(memory_order_relaxed) != 0) return false;
  if (now_ns - pace.ended_ns.load(memory_order_relaxed) < kOverdueNs) return false;
  for (std::uint32_t d = 0; d < metered.device_count; ++d) {
    if (d == context.device) continue;
    const std::int64_t due = due_ns(d, now_ns);
    if (due != 0 && now_ns - due >= kOverdueNs) return true;
  }
  return false;
}

void pass_for_rank(const ContextMeter& context, std::int64_t est_ns) {
  ranks_until_ns.store(port.now_ns() + kRanksForNs, memory_order_relaxed);
  pass_in_debt(context, est_ns);
}

void pass_in_debt(const ContextMeter& context, std::int64_t est_ns) {
  Pace& pace = *context.pace;
  const std::int64_t now_ns = port.now_ns();
  const std::uint32_t rate_ppm = ledger::rate_in_force(*context.account, port.ceiling_ppm(context));
  ledger::charge_debt(*context.account, now_ns, est_ns, rate_ppm, kCatchUpNs);
  context.account->passed_in_debt.fetch_add(1, memory_order_relaxed);
  std::int64_t busy = pace.busy_until_ns.load(memory_order_relaxed);
  while (!pace.busy_until_ns.compare_exchange_weak(busy, std::max(busy, now_ns) + est_ns, memory_order_relaxed)) {
  }
  // Into the pocket, from which it is taken at once.
  pace.credit_ns.fetch_add(est_ns, memory_order_relaxed);
}

std::int64_t ranks_look_ns(const StreamMeter& stream, std::int64_t wait_ns) {
  const std::int64_t now_ns = port.now_ns();
  for (std::uint32_t d = 0; d < metered.device_count; ++d) {
    if (d == stream.context->device) continue;
    const std::int64_t due = due_ns(d, now_ns);
    if (due != 0) wait_ns = std::min(wait_ns, std::max(kRankLookNs, due + kOverdueNs - now_ns));
  }
  return wait_ns;
}

}  // namespace headgate::limiter
