#include "guest/limiter/compute/turns.hpp"

#include <algorithm>

#include "guest/bare/futex.hpp"
#include "guest/ledger/gate.hpp"
#include "guest/limiter/compute/captures.hpp"
#include "guest/limiter/compute/lateness.hpp"
#include "guest/limiter/session/registration.hpp"

namespace headgate::limiter {
namespace {

using std::memory_order_relaxed;

// Priced so, the account of a share without a ceiling is never what a launch waits for.
constexpr std::uint32_t kNoCeiling = 4 * ledger::kWholeGpu;
constexpr std::int64_t kLeastLookNs = 5'000, kMostLookNs = 500'000;  // for the end of a portion
constexpr std::int64_t kShortWaitNs = 1'000'000;
// Of two looks further apart the thread slept through most of it, or was stopped.
constexpr std::int64_t kMostBetweenLooksNs = ledger::kTurnLookNs + 5'000'000;

struct DeviceTurns {
  std::atomic<std::int64_t> portion_left_ns{0};
  std::atomic<bool> was_shut{false};
  std::atomic<std::int64_t> told_ns{0};
  std::atomic<std::uint32_t> told_epoch{0};
  std::atomic<std::uint64_t> deserted_at{0};  // the heartbeat that stood still, plus 1
  std::atomic<std::uint32_t> room{0};         // futex: moves when nothing is in flight any more
  std::atomic<std::uint32_t> room_waiters{0};
};
constinit std::array<DeviceTurns, ledger::kMaxDevices> turns{};
constinit std::atomic<std::int64_t> wake_up_late_ns{kUsualLatenessNs};

const ledger::DevicePolicy& policy_of(std::uint32_t device) { return session.policy->devices[device]; }
ledger::SlotDevice& slot_of(std::uint32_t device) { return session.usage->slots[session.slot].devices[device]; }

bool left_alone(std::uint32_t device) {
  const std::uint64_t at = turns[device].deserted_at.load(memory_order_relaxed);
  return at != 0 && at == session.policy->heartbeat.load(memory_order_relaxed) + 1;
}

// The first launch at a gate, and one each 10 ms after it: the ring may have been lost with the daemon that it was for.
void tell(std::uint32_t device, std::uint32_t epoch) {
  DeviceTurns& mine = turns[device];
  const std::int64_t now_ns = port.now_ns();
  if (mine.told_epoch.load(memory_order_relaxed) == epoch &&
      now_ns - mine.told_ns.load(memory_order_relaxed) < ledger::kTurnLookNs)
    return;
  mine.told_epoch.store(epoch, memory_order_relaxed);
  mine.told_ns.store(now_ns, memory_order_relaxed);
  ring_doorbell(ledger::Ring::turn);
}

// Nothing of the process is in flight there. The settler may not have looked yet, so a thread that waits for that asks itself.
bool dry(const StreamMeter& stream) {
  const std::int32_t busy = stream.context->pace->busy_streams.load(memory_order_relaxed);
  if (busy == 0) return true;
  if (busy > 1 || stream.open.load(memory_order_relaxed) || metered.captures.load() != 0) return false;
  const std::uint32_t tail = stream.tail.load(memory_order_relaxed);
  if (stream.head.load(std::memory_order_acquire) == tail) return false;
  const RelaxedQuestions relaxed;
  return port.query(stream.closed[(tail - 1) % StreamMeter::kClosed].end) == abi::CUDA_SUCCESS;
}

}  // namespace

std::uint32_t ceiling_in_turns(std::uint32_t device, std::uint32_t ceiling_ppm) {
  if (!arbitrated(device)) return ceiling_ppm;
  const std::uint32_t guarantee_ppm = policy_of(device).compute_guarantee_ppm.load(memory_order_relaxed);
  if (guarantee_ppm != 0 && guarantee_ppm < ceiling_ppm && left_alone(device)) return guarantee_ppm;
  return ceiling_ppm == ledger::kWholeGpu ? kNoCeiling : ceiling_ppm;
}

bool turn_is_open(std::uint32_t device) {
  if (!arbitrated(device)) return true;
  const ledger::Gate gate = policy_of(device).gate.load(memory_order_relaxed);
  return gate == ledger::Gate::open || gate == ledger::Gate::tell;
}

void note_request(const StreamMeter& stream, std::int64_t known_ns) {
  const ContextMeter& context = *stream.context;
  if (!arbitrated(context.device)) return;
  ledger::ComputeAccount& account = *context.account;
  account.requests.fetch_add(1, memory_order_relaxed);
  if (known_ns != 0 && account.kernel_ns.load(memory_order_relaxed) != known_ns)
    account.kernel_ns.store(known_ns, memory_order_relaxed);
  if (context.pace->busy_streams.load(memory_order_relaxed) != 0) return;
  const std::int64_t ended_ns = context.pace->ended_ns.load(memory_order_relaxed), now_ns = port.now_ns();
  if (ended_ns == 0 || ended_ns >= now_ns) return;
  account.dry_ns.fetch_add(now_ns - ended_ns, memory_order_relaxed);
  account.dry_spells.fetch_add(1, memory_order_relaxed);
}

void report_work(std::uint32_t device) {
  const Pace& pace = metered.paces[device];
  ledger::SlotDevice& slot = slot_of(device);
  const bool busy = pace.busy_streams.load(memory_order_relaxed) > 0;
  const std::int64_t until_ns = busy ? std::max<std::int64_t>(1, pace.busy_until_ns.load(memory_order_relaxed)) : 0;
  if (!busy && turns[device].room_waiters.load() != 0) {
    turns[device].room.fetch_add(1);
    bare::futex_wake_all(&turns[device].room);
  }
  if (!busy && slot.work_until_ns.load(memory_order_relaxed) == 0) return;
  slot.work_until_ns.store(until_ns, memory_order_relaxed);
  slot.pulse.fetch_add(1, memory_order_relaxed);
}

void report_work() {
  if (!metered.active.load(std::memory_order_acquire)) return;
  if (doorbell_is_dead()) renew_doorbell();
  for (std::uint32_t d = 0; d < metered.device_count; ++d)
    if (reports_work(d)) report_work(d);
}

TurnWait::TurnWait(std::uint32_t device) : device_(device) {}

void TurnWait::begin() {
  if (waiting_) return;
  waiting_ = true;
  slot_of(device_).waiting.fetch_add(1, memory_order_relaxed);
}

void TurnWait::leave() {
  if (!waiting_) return;
  waiting_ = false;
  slot_of(device_).waiting.fetch_sub(1, memory_order_relaxed);
}

bool TurnWait::deserted() {
  const std::int64_t now_ns = port.now_ns();
  if (left_alone(device_)) return tell(device_, epoch_), true;
  const std::uint64_t beat = session.policy->heartbeat.load(memory_order_relaxed);
  if (beat != beat_ || looked_ns_ == 0) without_beat_ns_ = 0;
  else without_beat_ns_ += std::min(now_ns - looked_ns_, kMostBetweenLooksNs);
  beat_ = beat;
  looked_ns_ = now_ns;
  if (without_beat_ns_ < ledger::kDesertedNs) return false;
  turns[device_].deserted_at.store(beat + 1, memory_order_relaxed);
  log_line(LogLevel::warn,
           "headgated decides no more who has the GPU (device %u of the share): launches go on under %s", device_,
           policy_of(device_).compute_guarantee_ppm.load(memory_order_relaxed) != 0 ? "the share's guarantee"
                                                                                    : "the share's ceiling");
  return true;
}

void TurnWait::look() {
  room_ = turns[device_].room.load();
  epoch_ = policy_of(device_).gate_epoch.load(std::memory_order_acquire);
}

std::int64_t TurnWait::wait_ns(StreamMeter& stream, std::int64_t est_ns) {
  DeviceTurns& mine = turns[device_];
  taken_ns_ = 0;
  const ledger::DevicePolicy& policy = policy_of(device_);
  const ledger::Gate gate = arbitrated(device_) ? policy.gate.load(memory_order_relaxed) : ledger::Gate::open;
  queued_ = gate == ledger::Gate::queued;
  shut_ = queued_ || gate == ledger::Gate::shut;
  if (gate == ledger::Gate::tell) tell(device_, epoch_);
  if (shut_) {
    mine.was_shut.store(true, memory_order_relaxed);
    if (!deserted()) return begin(), ledger::kTurnLookNs;
  }
  if (gate == ledger::Gate::portion) {
    if (dry(stream)) {
      stream.context->pace->busy_until_ns.store(port.now_ns());
      mine.portion_left_ns.store(std::int64_t{policy.portion_us.load(memory_order_relaxed)} * 1'000);
    } else if (mine.portion_left_ns.load(memory_order_relaxed) < est_ns && !deserted()) {
      begin();
      meter.close(stream);  // what its bracket has taken and not used is not ahead of us
      const std::int64_t ahead_ns = stream.context->pace->busy_until_ns.load(memory_order_relaxed) - port.now_ns();
      return std::clamp(ahead_ns - head_start_ns(wake_up_late_ns.load(memory_order_relaxed)), kLeastLookNs,
                        kMostLookNs);
    }
    mine.portion_left_ns.fetch_sub(est_ns, memory_order_relaxed);
    taken_ns_ = est_ns;
  }
  if (mine.was_shut.load(memory_order_relaxed) && mine.was_shut.exchange(false))
    count_after_shut_gate(*stream.context->pace, port.now_ns(), est_ns);
  return 0;
}

void TurnWait::give_back() {
  if (taken_ns_ != 0) turns[device_].portion_left_ns.fetch_add(taken_ns_, memory_order_relaxed);
  taken_ns_ = 0;
}

void TurnWait::wait(std::int64_t ns) {
  const std::int64_t now_ns = port.now_ns();
  slot_of(device_).pulse.fetch_add(1, memory_order_relaxed);
  if (rang_ns_ == 0 && queued_) rang_ns_ = now_ns;
  if (shut_ && now_ns - rang_ns_ >= ledger::kTurnLookNs) {
    rang_ns_ = now_ns;
    ring_doorbell(ledger::Ring::turn);
    if (doorbell_is_dead()) renew_doorbell(), ring_doorbell(ledger::Ring::turn);
  }
  wait_at_gate(policy_of(device_).gate_epoch, epoch_, ns);
  if (shut_) return;
  const std::int64_t known_ns = wake_up_late_ns.load(memory_order_relaxed);
  wake_up_late_ns.store(next_lateness_ns(known_ns, ns, port.now_ns() - now_ns), memory_order_relaxed);
}

void TurnWait::wait_for_room(std::int64_t ns) const {
  if (!arbitrated(device_) || ns > kShortWaitNs) return wait_at_gate(policy_of(device_).gate_epoch, epoch_, ns);
  turns[device_].room_waiters.fetch_add(1);
  if (metered.paces[device_].busy_streams.load() != 0) wait_at_gate(turns[device_].room, room_, ns);
  turns[device_].room_waiters.fetch_sub(1);
}

void turns_reset_after_fork() {
  for (DeviceTurns& each : turns) {
    each.portion_left_ns.store(0);
    each.was_shut.store(false);
    each.told_ns.store(0);
    each.deserted_at.store(0);
    each.room_waiters.store(0);
  }
}

}  // namespace headgate::limiter
