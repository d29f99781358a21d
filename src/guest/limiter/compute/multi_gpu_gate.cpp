#include "guest/limiter/compute/multi_gpu_gate.hpp"

#include <algorithm>

#include "guest/ledger/slot.hpp"
#include "guest/limiter/compute/multi_gpu_rules.hpp"
#include "guest/limiter/compute/turns.hpp"

namespace headgate::limiter {
namespace {

using std::memory_order_relaxed;

constexpr std::int64_t kNoRankNs = 1'000'000'000;  // a rank this late does not wait: it is endless, stopped or dead

std::atomic<std::int64_t> lately_until_ns{0};  // ranks have waited for each other recently

// Returns when the share's work on that GPU should end: the earliest reported by its processes (turns.cpp); 0: none.
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

// The share's other GPUs.
class Others {
 public:
  Others(const StreamMeter& stream, std::int64_t now_ns, bool with_due) {
    for (std::uint32_t d = 0; d < metered.device_count; ++d) {
      if (d == stream.context->device) continue;
      const ledger::ComputeAccount& account = session.usage->compute[d];
      const std::int64_t due = with_due && !is_shut_out(d) ? due_ns(d, now_ns) : 0;
      places_[count_++] = {.paid_until_ns = ledger::paid_until_ns(account),
                           .due_ns = late_from_ns(account, due, now_ns),
                           .runs = late_work_runs(account, due, now_ns)};
    }
  }
  operator std::span<const RankPlace>() const { return {places_.data(), count_}; }

 private:
  std::array<RankPlace, ledger::kMaxDevices> places_;
  std::size_t count_ = 0;
};

}  // namespace

std::int64_t ranks_wait_ns(const StreamMeter& stream, std::int64_t asked_ns) {
  const std::int64_t now_ns = port.now_ns();
  const bool lately = now_ns < lately_until_ns.load(memory_order_relaxed);
  return wait_for_ranks_ns(Others(stream, now_ns, false), lately, asked_ns, now_ns);
}

bool rank_spins_for(const StreamMeter& stream) {
  const std::int64_t now_ns = port.now_ns(), until_ns = lately_until_ns.load(memory_order_relaxed);
  const Others others(stream, now_ns, true);
  if (!a_rank_spins(*stream.context->pace, others, now_ns < until_ns, now_ns)) return false;
  lately_until_ns.store(ranks_until_ns(others, until_ns, now_ns), memory_order_relaxed);
  return true;
}

void pass_in_debt(const ContextMeter& context, std::int64_t est_ns) {
  const std::uint32_t rate_ppm = ledger::rate_in_force(*context.account, port.ceiling_ppm(context));
  charge_ahead(*context.account, *context.pace, est_ns, rate_ppm, port.now_ns());
}

std::int64_t ranks_look_ns(const StreamMeter& stream, std::int64_t wait_ns) {
  const std::int64_t now_ns = port.now_ns();
  return look_at_ranks_ns(Others(stream, now_ns, true), wait_ns, now_ns);
}

}  // namespace headgate::limiter
