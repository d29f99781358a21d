// When the meter works: it starts with the first context, follows the policy, gives up contexts, and starts over in a
// forked child.
#include "guest/limiter/compute/compute.hpp"
#include "guest/limiter/compute/copies.hpp"
#include "guest/limiter/compute/stream_table.hpp"
#include "guest/limiter/compute/turns.hpp"
#include "guest/limiter/stream/captures.hpp"
#include "guest/limiter/stream/streams.hpp"

namespace headgate::limiter {
namespace {

void read_policy() {
  const bool paused = ledger::is_paused(*session.policy);
  if (!paused) metered.paused_ns.store(0);
  else if (metered.paused_ns.load() == 0) metered.paused_ns.store(port.now_ns());
  for (std::uint32_t d = 0; d < metered.device_count; ++d) {
    const ledger::DevicePolicy& policy = session.policy->devices[d];
    metered.seen_gate_epoch[d].store(policy.gate_epoch.load(std::memory_order_acquire), std::memory_order_relaxed);
  }
  metered.limited.store(paused || ledger::is_metered(*session.policy), std::memory_order_release);
}

bool any_stream_is_busy() {
  for (std::uint32_t d = 0; d < metered.device_count; ++d)
    if (metered.paces[d].busy_streams.load(std::memory_order_relaxed) != 0) return true;
  return false;
}

void start_metering() {
  if (session.membership.load(std::memory_order_acquire) != Membership::member || session.usage == nullptr) return;
  if (metered.active.load(std::memory_order_acquire)) return;
  const std::uint32_t count = session.held.device_count;
  metered.device_count = count < ledger::kMaxDevices ? count : ledger::kMaxDevices;
  unfinished_work.store(&any_stream_is_busy, std::memory_order_release);
  read_policy();
  // Invalidate what threads remember from before.
  metered.epoch.fetch_add(1);
  move_lane_epoch();
  metered.active.store(true, std::memory_order_release);
}

// Ends the context's brackets and settles what the GPU finishes within kPatienceNs: the driver waits for that work too
// when it destroys a context.
void settle_context(abi::CUcontext handle) {
  const ContextMeter* context = nullptr;
  metered.table_lock.lock();
  for (const ContextMeter& one : metered.used_contexts())
    if (one.handle == handle && !one.failed.load()) context = &one;
  metered.table_lock.unlock();
  if (context == nullptr) return;
  {
    const CurrentContext as(handle);
    close_context();
  }
  const auto unsettled = [context](const StreamMeter& stream) {
    return stream.used.load() && stream.context == context && stream.unsettled.load() > (stream.open.load() ? 1 : 0);
  };
  const std::int64_t until_ns = port.now_ns() + kPatienceNs;
  while (metered.settler.load() == 1 && port.now_ns() < until_ns) {
    bool any = false;
    for (std::uint32_t i = 0; i < metered.stream_limit.load(); ++i) any |= unsettled(metered.streams[i]);
    if (!any) return;
    pause_thread();
  }
}

}  // namespace

bool concerned() {
  if (!metered.active.load(std::memory_order_acquire)) return false;
  for (std::uint32_t d = 0; d < metered.device_count; ++d) {
    if (session.policy->devices[d].gate_epoch.load(std::memory_order_relaxed) !=
        metered.seen_gate_epoch[d].load(std::memory_order_relaxed)) [[unlikely]] {
      read_policy();
      break;
    }
  }
  return metered.limited.load(std::memory_order_relaxed);
}

const char* unmeasured_fate() {
  return session.policy->fail_policy == ledger::FailPolicy::closed ? "are refused from now on"
                                                                   : "run unlimited from now on";
}

void compute_know_context(abi::CUcontext handle, std::uint32_t device) {
  start_metering();
  if (!metered.active.load(std::memory_order_acquire)) return;
  metered.table_lock.lock();
  if (handle == nullptr || context_meter(handle, device) == nullptr) {
    metered.contexts_seen.fetch_add(1);
    move_lane_epoch();
  }
  metered.table_lock.unlock();
}

void compute_forget_context(abi::CUcontext handle) {
  captures_of_context_gone(handle);
  if (!metered.active.load(std::memory_order_acquire)) return;
  settle_context(handle);
  metered.settler_lock.lock();
  metered.table_lock.lock();
  for (ContextMeter& context : metered.used_contexts()) {
    if (context.handle != handle) continue;
    for (StreamMeter& stream : metered.used_streams())
      if (stream.used.load() && stream.context == &context) {
        tell_lane(stream, true);
        meter.forget(stream, kNothingOpen);
      }
    forget_copies(context);
    return_prepaid(context);
    meter.forget_events(context);
    ledger::leave_seat(context.seat);
    context.handle = nullptr;
    metered.contexts_seen.fetch_sub(1);
  }
  metered.epoch.fetch_add(1, std::memory_order_release);
  move_lane_epoch();
  metered.table_lock.unlock();
  metered.settler_lock.unlock();
}

void meter_stops_after_fork() {
  metered.active.store(false);
  metered.limited.store(false);
  metered.paused_ns.store(0);
}

void meter_reset_after_fork() {
  metered.settler.store(0);
  metered.unsettled.store(false);
  metered.settler_idle.store(false);
  metered.table_lock.reset();
  metered.settler_lock.reset();
  metered.contexts_seen.store(0);
  for (ContextMeter& context : metered.used_contexts()) {
    context.pool_lock.reset();
    context.handle = nullptr;
  }
  for (StreamMeter& stream : metered.used_streams()) {
    stream.lock.reset();
    stream.open.store(false);
    stream.unsettled.store(0);
    stream.timed_copies.store(0);
    stream.head.store(stream.tail.load());
    stream.used.store(false);
  }
  for (Pace& pace : metered.paces) {
    pace.busy_until_ns.store(0);
    pace.credit_ns.store(0);
    pace.open.store(0);
    pace.busy_streams.store(0);
    pace.oldest_ns.store(0);
    pace.last_debt_ns.store(0);
    pace.unknown.store(0);
    pace.slowed.store(0);
    pace.unsettled_ns.store(0);
    pace.long_ns.store(0);
    pace.ended_ns.store(0);
    pace.lag_until_ns.store(0);
    pace.turn_began_ns.store(0);
  }
  metered.epoch.fetch_add(1);
  for (Lane& lane : std::span(metered.lanes).first(metered.stream_limit.load())) lane.owner.store(nullptr);
  metered.context_limit.store(0);
  metered.stream_limit.store(0);
  move_lane_epoch();
}

}  // namespace headgate::limiter
