#include "guest/limiter/compute/turns.hpp"

#include <algorithm>

#include "guest/bare/futex.hpp"
#include "guest/ledger/gate.hpp"
#include "guest/limiter/compute/timer_lateness.hpp"
#include "guest/limiter/compute/unattended.hpp"
#include "guest/limiter/session/registration.hpp"
#include "guest/limiter/stream/captures.hpp"

namespace headgate::limiter {
namespace {

using std::memory_order_relaxed;

// With this price, the account of a share without a ceiling never makes a launch wait.
constexpr std::uint32_t kNoCeiling = 4 * ledger::kWholeGpu;
constexpr std::int64_t kMinLookNs = 5'000, kMaxLookNs = 500'000;  // for the end of a batch
constexpr std::int64_t kShortWaitNs = 1'000'000;
// How often the settler checks whether the daemon still runs.
constexpr std::int64_t kDaemonLookNs = 250'000'000;
// If two looks are further apart, the thread slept through most of the time, or was stopped.
constexpr std::int64_t kMaxBetweenLooksNs = ledger::kTurnLookNs + 5'000'000;

struct DeviceTurns {
  std::atomic<std::int64_t> portion_left_ns{0};
  std::atomic<bool> was_shut{false};
  std::atomic<std::int64_t> told_ns{0};
  std::atomic<std::uint32_t> told_epoch{0};
  std::atomic<std::uint64_t> deserted_at{0};  // the heartbeat that stopped, plus 1
  std::atomic<std::uint32_t> room{0};         // futex: moves when nothing is in flight any more
  std::atomic<std::uint32_t> room_waiters{0};
  SparseUse use;  // without a daemon
};
constinit std::array<DeviceTurns, ledger::kMaxDevices> turns{};
constinit std::atomic<std::int64_t> wake_up_late_ns{kDefaultLatenessNs};

const ledger::DevicePolicy& policy_of(std::uint32_t device) { return session.policy->devices[device]; }
ledger::SlotDevice& slot_of(std::uint32_t device) { return session.usage->slots[session.slot].devices[device]; }

bool left_alone(std::uint32_t device) {
  const std::uint64_t at = turns[device].deserted_at.load(memory_order_relaxed);
  return at != 0 && at == session.policy->heartbeat.load(memory_order_relaxed) + 1;
}

// Returns what the daemon left to the share, or a default for pages of an older daemon.
std::uint32_t unattended_ppm(std::uint32_t device) {
  const ledger::DevicePolicy& policy = policy_of(device);
  const std::uint32_t said_ppm = policy.compute_unattended_ppm.load(memory_order_relaxed);
  if (said_ppm != 0 && said_ppm <= ledger::kWholeGpu) return said_ppm;
  const std::uint32_t guarantee_ppm = policy.compute_guarantee_ppm.load(memory_order_relaxed);
  return guarantee_ppm != 0 ? guarantee_ppm : policy.compute_ceiling_ppm.load(memory_order_relaxed);
}

void leave_alone(std::uint32_t device, std::uint64_t beat, const char* why) {
  turns[device].deserted_at.store(beat + 1, memory_order_relaxed);
  const std::uint32_t ppm = std::min(unattended_ppm(device), ledger::kWholeGpu);
  log_line(LogLevel::warn,
           "headgated %s: GPU %u of the share is used within %u.%u %% of its time until it decides again", why, device,
           ppm / 10'000, ppm / 1'000 % 10);
}

std::int64_t unattended_wait_ns(const ContextMeter& context, std::int64_t est_ns) {
  const std::uint32_t device = context.device;
  const ledger::DevicePolicy& policy = policy_of(device);
  const std::uint32_t part_ppm = policy.compute_unattended_ppm.load(memory_order_relaxed);
  if (part_ppm == 0) return 0;  // an older daemon's page
  const std::int64_t now_ns = port.now_ns();
  const Span span =
      span_of(ledger::cycle_ns_of(policy), policy.compute_unattended_from_ppm.load(memory_order_relaxed), part_ppm);
  const std::int64_t wait_ns = wait_for_span_ns(*context.pace, *context.account, span, part_ppm, now_ns, est_ns);
  const std::uint64_t held_ns = context.account->held_ns.load(memory_order_relaxed);
  if (wait_ns == 0 || turns[device].use.is_sparse(now_ns, span, held_ns)) return 0;
  return std::min(wait_ns, ledger::kTurnLookNs);
}

// With an open gate a process never waits, so no waiter would notice that the daemon has ended. For the settler.
void look_for_daemon() {
  static std::int64_t looked_ns = 0;
  static bool gone = false;
  bool decided = false;
  for (std::uint32_t d = 0; d < metered.device_count; ++d) decided |= arbitrated(d);
  const std::int64_t now_ns = port.now_ns();
  if (!decided || now_ns - looked_ns < kDaemonLookNs) return;
  looked_ns = now_ns;
  // Read before asking: a daemon that starts meanwhile moves it.
  const std::uint64_t beat = session.policy->heartbeat.load(memory_order_relaxed);
  const bool was_gone = gone;
  gone = daemon_is_gone();
  for (std::uint32_t d = 0; d < metered.device_count; ++d) {
    if (gone && arbitrated(d) && turns[d].deserted_at.load(memory_order_relaxed) != beat + 1)
      leave_alone(d, beat, "has ended");
    // The heartbeat may be the same: the daemon only reopened its socket.
    if (was_gone && !gone) {
      turns[d].deserted_at.store(0, memory_order_relaxed);
      metered.paces[d].cycle_ns.store(0, memory_order_relaxed);
    }
  }
}

std::int64_t behind_ns(std::uint32_t device) {
  if (!arbitrated(device) || left_alone(device)) return 0;
  return std::int64_t{session.policy->behind_ms[device].load(memory_order_relaxed)} * 1'000'000;
}

// Rings at the first launch at a gate, and every 10 ms after: the ring may have been lost with its daemon.
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

// Returns whether nothing of the process is in flight there. The settler may not have looked, so a thread that waits
// for this queries itself.
bool dry(const StreamMeter& stream) {
  const std::int32_t busy = stream.context->pace->busy_streams.load(memory_order_relaxed);
  if (busy == 0) return true;
  if (busy > 1 || stream.open.load(memory_order_relaxed) || open_captures.load() != 0) return false;
  const std::uint32_t tail = stream.tail.load(memory_order_relaxed);
  if (stream.head.load(std::memory_order_acquire) == tail) return false;
  const RelaxedQuestions relaxed;
  return port.query(stream.closed[(tail - 1) % StreamMeter::kClosed].end) == abi::CUDA_SUCCESS;
}

// This process has nothing in flight any more. Returns whether the share's other processes have nothing either. Of two
// that end at once, one sees that the other has: the order of their stores and loads is the same for both.
bool was_last(std::uint32_t device) {
  const std::uint32_t slots = std::min(session.usage->slots_seen.load(std::memory_order_acquire), ledger::kMaxSlots);
  const std::int64_t now_ns = port.now_ns();
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    if (slot == session.slot) continue;
    const std::int64_t until_ns = session.usage->slots[slot].devices[device].work_until_ns.load();
    // A stopped process would keep the others from it for ever. If its work goes on, the arbiter sees that.
    if (until_ns == 0 || until_ns <= now_ns - ledger::kNoPulseNs) continue;
    if (ledger::work_of(*session.usage, device, slot).work_until_ns != 0) return false;
  }
  return true;
}

}  // namespace

std::uint32_t ceiling_in_turns(std::uint32_t device, std::uint32_t ceiling_ppm) {
  if (!arbitrated(device)) return ceiling_ppm;
  if (left_alone(device)) [[unlikely]]
    ceiling_ppm = std::min(ceiling_ppm, unattended_ppm(device));
  return ceiling_ppm == ledger::kWholeGpu ? kNoCeiling : ceiling_ppm;
}

bool turn_is_open(std::uint32_t device) {
  if (!arbitrated(device)) return true;
  if (left_alone(device)) return false;
  const ledger::Gate gate = policy_of(device).gate.load(memory_order_relaxed);
  return gate == ledger::Gate::open_notify ||
         (gate == ledger::Gate::open &&
          (!ledger::may_open_later(policy_of(device)) || ledger::opens_in_ns(policy_of(device), port.now_ns()) == 0));
}

bool turn_is_ending(std::uint32_t device) {
  return arbitrated(device) && !left_alone(device) && ledger::is_ending(policy_of(device));
}

bool is_shut_out(std::uint32_t device) {
  return arbitrated(device) && !left_alone(device) &&
         !ledger::lets_in(policy_of(device).gate.load(memory_order_relaxed));
}

void note_request(const StreamMeter& stream, std::int64_t known_ns) {
  const ContextMeter& context = *stream.context;
  if (!arbitrated(context.device)) return;
  ledger::ComputeAccount& account = *context.account;
  const std::uint64_t requests = account.requests.fetch_add(1, memory_order_relaxed) + 1;
  if (known_ns != 0 && account.kernel_ns.load(memory_order_relaxed) != known_ns)
    account.kernel_ns.store(known_ns, memory_order_relaxed);
  const bool busy = context.pace->busy_streams.load(memory_order_relaxed) != 0;
  const std::int64_t dry_ns = note_asked(*context.pace, requests, busy ? 0 : port.now_ns());
  if (dry_ns == 0) return;
  account.dry_ns.fetch_add(dry_ns, memory_order_relaxed);
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
  slot.oldest_ns.store(busy ? pace.oldest_ns.load(memory_order_relaxed) : 0, memory_order_relaxed);
  slot.work_until_ns.store(until_ns, busy ? memory_order_relaxed : std::memory_order_seq_cst);  // was_last()
  slot.pulse.fetch_add(1, memory_order_relaxed);
  if (busy || !arbitrated(device) || !was_last(device)) return;
  nothing_in_share(session.usage->compute[device], port.now_ns());
  if (turn_is_ending(device)) ring_doorbell(ledger::Ring::turn);
}

void report_work() {
  if (!metered.active.load(std::memory_order_acquire)) return;
  look_for_daemon();
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
  else without_beat_ns_ += std::min(now_ns - looked_ns_, kMaxBetweenLooksNs);
  beat_ = beat;
  looked_ns_ = now_ns;
  if (without_beat_ns_ < ledger::kDesertedNs) return false;
  leave_alone(device_, beat, "does not answer");
  return true;
}

void TurnWait::look() {
  room_ = turns[device_].room.load();
  epoch_ = policy_of(device_).gate_epoch.load(std::memory_order_acquire);
}

std::int64_t TurnWait::wait_ns(StreamMeter& stream, std::int64_t est_ns) {
  DeviceTurns& mine = turns[device_];
  taken_ns_ = 0;
  stream.context->pace->behind_ns.store(behind_ns(device_), memory_order_relaxed);
  const ledger::DevicePolicy& policy = policy_of(device_);
  const ledger::Gate gate = arbitrated(device_) ? policy.gate.load(memory_order_relaxed) : ledger::Gate::open;
  queued_ = gate == ledger::Gate::queued;
  shut_ = queued_ || gate == ledger::Gate::shut;
  if (gate == ledger::Gate::open_notify) tell(device_, epoch_);
  const auto waits_for_turn = [&](std::int64_t ns) {
    mine.was_shut.store(true, memory_order_relaxed);
    begin();
    return ns;
  };
  if (shut_ && !deserted()) return waits_for_turn(ledger::kTurnLookNs);
  if (arbitrated(device_) && left_alone(device_)) [[unlikely]] {
    const std::int64_t wait_ns = unattended_wait_ns(*stream.context, est_ns);
    if (wait_ns != 0) return waits_for_turn(wait_ns);
  } else if (stream.context->pace->cycle_ns.load(memory_order_relaxed) != 0) {
    stream.context->pace->cycle_ns.store(0, memory_order_relaxed);
  }
  if (gate == ledger::Gate::open && arbitrated(device_) && ledger::may_open_later(policy)) {
    const std::int64_t left_ns =
        ledger::opens_in_ns(policy, port.now_ns()) - head_start_ns(wake_up_late_ns.load(memory_order_relaxed));
    if (left_ns >= kMinLookNs) return waits_for_turn(left_ns);
  }
  if (gate == ledger::Gate::batch) {
    if (dry(stream)) {
      stream.context->pace->busy_until_ns.store(port.now_ns());
      mine.portion_left_ns.store(std::int64_t{policy.batch_us.load(memory_order_relaxed)} * 1'000);
    } else if (mine.portion_left_ns.load(memory_order_relaxed) < est_ns && !deserted()) {
      begin();
      meter.close(stream);  // what its bracket took but did not use is not ahead of us
      const std::int64_t ahead_ns = stream.context->pace->busy_until_ns.load(memory_order_relaxed) - port.now_ns();
      return std::clamp(ahead_ns - head_start_ns(wake_up_late_ns.load(memory_order_relaxed)), kMinLookNs, kMaxLookNs);
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
  if (shut_ && ring_time_.is_due(queued_, without_beat_ns_, now_ns)) {
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
