// Moves the process's prepaid time into a thread's lane and back: the slow side of lane_passes() in stream_table.hpp.
#include "guest/limiter/compute/stream_table.hpp"
#include "guest/limiter/compute/turns.hpp"

namespace headgate::limiter {

void move_lane_epoch() { metered.lane_epoch.fetch_add(1); }

void tell_lane(StreamMeter& stream, bool take) {
  Lane& lane = metered.lanes[static_cast<std::size_t>(&stream - metered.streams.data())];
  if (lane.owner.load(std::memory_order_relaxed) == nullptr) return;
  if (take) lane.owner.store(nullptr, std::memory_order_relaxed);
  const std::int64_t used_ns = lane.used_ns.load(std::memory_order_relaxed);
  const std::uint32_t launches = lane.launches.load(std::memory_order_relaxed);
  const std::int64_t news_ns = used_ns - lane.told_ns;
  if (stream.open.load(std::memory_order_relaxed) && news_ns > 0) {
    stream.spent_ns.store(stream.spent_ns.load(std::memory_order_relaxed) + news_ns, std::memory_order_relaxed);
    stream.launches.store(stream.launches.load(std::memory_order_relaxed) + launches - lane.told_launches,
                          std::memory_order_relaxed);
    lane.told_ns = used_ns;
    lane.told_launches = launches;
  }
  if (!take) return;
  ContextMeter& context = *stream.context;
  context.pace->credit_ns.fetch_add(lane.limit_ns.load(std::memory_order_relaxed) - used_ns, std::memory_order_relaxed);
  // Time used after the bracket ended belongs to no bracket: it stays charged as estimated.
  const std::int64_t stray_ns = used_ns - lane.told_ns;
  if (stray_ns <= 0) return;
  context.account->held_ns.fetch_add(static_cast<std::uint64_t>(stray_ns), std::memory_order_relaxed);
  context.account->estimated_ns.fetch_add(static_cast<std::uint64_t>(stray_ns), std::memory_order_relaxed);
  context.launches->fetch_add(launches - lane.told_launches, std::memory_order_relaxed);
  context.account->delays.prompt.fetch_add(launches - lane.told_launches, std::memory_order_relaxed);
}

void give_lane(StreamMeter& stream, abi::CUstream handle, std::uint64_t function, std::uint32_t epoch) {
  if (!says_which_stream(handle)) return;
  const std::uint32_t device = stream.context->device;
  const std::uint32_t gate_epoch = metered.seen_gate_epoch[device].load(std::memory_order_relaxed);
  // Read the gate after its epoch: a change of the gate is followed by one of the epoch, which ends the lane.
  if (!turn_is_open(device)) return;
  const std::int64_t est_ns = metered.estimates.known_ns(function);
  if (est_ns == 0 || est_ns >= kAloneNs || !stream.open.load(std::memory_order_relaxed)) return;
  Pace& pace = *stream.context->pace;
  const std::int64_t room_ns = stream.quantum_ns - stream.spent_ns.load(std::memory_order_relaxed);
  const std::int64_t sharers = pace.busy_streams.load(std::memory_order_relaxed);
  std::int64_t prepaid_ns = pace.credit_ns.load(std::memory_order_relaxed);
  std::int64_t part = 0;
  do {
    part = prepaid_ns <= 0 ? 0 : sharers > 1 ? prepaid_ns / sharers : prepaid_ns;
    if (part > room_ns) part = room_ns;
    if (part < est_ns) return;
  } while (!pace.credit_ns.compare_exchange_weak(prepaid_ns, prepaid_ns - part, std::memory_order_relaxed));
  Lane& lane = metered.lanes[static_cast<std::size_t>(&stream - metered.streams.data())];
  lane.told_ns = lane.used_ns.load(std::memory_order_relaxed);
  lane.told_launches = lane.launches.load(std::memory_order_relaxed);
  lane.limit_ns.store(lane.told_ns + part, std::memory_order_relaxed);
  lane.owner.store(&thread_lane, std::memory_order_relaxed);
  thread_lane = {handle,     function, est_ns, &lane, &stream, &session.policy->devices[device].gate_epoch,
                 gate_epoch, epoch};
}

void flush_fast_path(const StreamMeter& next) {
  const Lane* const lane = thread_lane.lane;
  if (lane == nullptr || thread_lane.stream == &next || lane->owner.load(std::memory_order_relaxed) != &thread_lane)
    return;
  StreamMeter& stream = metered.streams[static_cast<std::size_t>(lane - metered.lanes.data())];
  if (!stream.lock.try_lock()) return;  // the holder of the lock tells the lane itself
  if (lane->owner.load(std::memory_order_relaxed) == &thread_lane) tell_lane(stream, true);
  stream.lock.unlock();
}

void return_prepaid(ContextMeter& context) {
  Pace& pace = *context.pace;
  if (pace.open.load(std::memory_order_relaxed) != 0) return;
  const std::int64_t left = pace.credit_ns.exchange(0, std::memory_order_relaxed);
  if (left == 0) return;
  ledger::correct(*context.account, -left, ledger::rate_in_force(*context.account, port.ceiling_ppm(context)));
  give_room(pace, left);
}

}  // namespace headgate::limiter
