#include "guest/limiter/entry/timed_section.hpp"

#include <algorithm>
#include <utility>

#include "guest/limiter/compute/stream_table.hpp"
#include "guest/limiter/compute/turns.hpp"
#include "guest/limiter/memory/allocation_table.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/stream/captures.hpp"

using namespace headgate::abi;

namespace headgate::limiter {
namespace {

constinit AllocationTable untimed;      // events created without timing, by handle
constexpr unsigned kDisableTiming = 2;  // cuda.h: CU_EVENT_DISABLE_TIMING

std::uint64_t key(CUevent event) { return reinterpret_cast<std::uintptr_t>(event); }

bool measures_time(CUevent event) {
  Allocation ignored;
  return !untimed.look(key(event), ignored);
}

// Returns whether the record begins a section.
bool begins(StreamMeter& stream) {
  stream.lock.lock();
  tell_lane(stream, true);
  const std::uint64_t all =
      stream.finished_launches +
      (stream.open.load(std::memory_order_relaxed) ? stream.launches.load(std::memory_order_relaxed) : 0);
  const bool first = std::exchange(stream.launches_at_record, all) == all && all != 0;
  stream.section_ns = 0;
  stream.lock.unlock();
  return first;
}

// Returns how long until a command as long as the stream's last could pass at once; 0: now.
std::int64_t owed_ns(const StreamMeter& stream, std::int64_t now_ns) {
  const Pace& pace = *stream.context->pace;
  const std::int64_t lag_ns = now_ns - ledger::paid_until_ns(*stream.context->account);
  const std::int64_t ahead_ns = pace.busy_until_ns.load(std::memory_order_relaxed) - now_ns;
  return std::max<std::int64_t>({0, kBatchNs - lag_ns, ahead_ns});
}

// A share without a ceiling owes nothing: with turns it waits only for its turn, not for its own work.
bool owes(const ContextMeter& context) {
  return !arbitrated(context.device) || session.policy->devices[context.device].compute_ceiling_ppm.load(
                                            std::memory_order_relaxed) < ledger::kWholeGpu;
}

// Returns how long until the arbiter gives the GPU; the launch itself takes its part of the turn.
std::int64_t turn_wait_ns(TurnWait& turn, StreamMeter& stream) {
  stream.lock.lock();
  const std::int64_t wait_ns = turn.wait_ns(stream, 0);
  turn.give_back();
  stream.lock.unlock();
  return wait_ns;
}

// Removes the entry before the driver may reuse the handle for another event.
template <typename Destroy>
CUresult destroyed(CUevent event, Destroy destroy) {
  Allocation entry;
  const bool known = untimed.take(key(event), entry);
  const CUresult result = destroy();
  if (known && result != CUDA_SUCCESS) untimed.put(key(event), entry);
  return result;
}

}  // namespace

void timed_sections_reset_after_fork() { untimed.forget_after_fork(); }

void before_record(CUevent event, CUstream handle) {
  if (!measures_time(event) || any_capture()) return;
  StreamMeter* const stream = known_stream(handle);
  if (stream == nullptr || stream->context->failed.load() || !begins(*stream)) return;
  const ContextMeter& context = *stream->context;
  TurnWait turn(context.device);
  const auto& gate = session.policy->devices[context.device].gate_epoch;
  const std::int64_t asked_ns = port.now_ns();
  bool closed = false;
  while (metered.paused_ns.load(std::memory_order_relaxed) == 0) {
    // Pay debt first: waiting during a turn would waste it.
    turn.look();
    const std::int64_t now_ns = port.now_ns(), debt_ns = owes(context) ? owed_ns(*stream, now_ns) : 0;
    const std::int64_t turn_ns = debt_ns == 0 ? turn_wait_ns(turn, *stream) : 0;
    const std::int64_t wait_ns = std::max(debt_ns, turn_ns);
    const std::int64_t oldest_ns = context.pace->oldest_ns.load(std::memory_order_relaxed);
    const bool stuck = oldest_ns != 0 && now_ns - oldest_ns >= kPatienceNs;
    if (wait_ns == 0 || now_ns - asked_ns >= (stuck ? kPatienceNs : kSectionWaitNs)) break;
    // Waiting time must not be charged.
    if (!closed) close_stream(handle, false);
    closed = true;
    if (turn_ns != 0) turn.wait(std::min(wait_ns, kLongestSleepNs));
    else wait_at_gate(gate, gate.load(), std::min(wait_ns, kLongestSleepNs));
    if (!concerned()) return;
  }
  stream->lock.lock();
  stream->section_ns = kSectionNs;
  stream->lock.unlock();
}

}  // namespace headgate::limiter

using namespace headgate::limiter;

HEADGATE_HOOK CUresult cuEventCreate(CUevent* phEvent, unsigned Flags) {
  const CUresult result = forward(driver.cuEventCreate, phEvent, Flags);
  if (result == CUDA_SUCCESS && (Flags & kDisableTiming) != 0) untimed.put(key(*phEvent), {});
  return result;
}

HEADGATE_HOOK CUresult cuEventDestroy(CUevent hEvent) {
  return destroyed(hEvent, [=] { return forward(driver.cuEventDestroy, hEvent); });
}

HEADGATE_HOOK CUresult cuEventDestroy_v2(CUevent hEvent) {
  return destroyed(hEvent, [=] { return forward(driver.cuEventDestroy_v2, hEvent); });
}
