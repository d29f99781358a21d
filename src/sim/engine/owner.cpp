// What the owner of streams and events does without the node's lock; also the arithmetic of the profile.
#include <sys/mman.h>
#include <algorithm>

#include "sim/engine.hpp"

namespace headgate::sim {

void StateDeleter::operator()(State* state) const { ::munmap(state, sizeof(State)); }

StatePointer make_state(const Profile& profile, std::uint64_t now_ns) {
  void* memory =
      ::mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  StatePointer state(static_cast<State*>(memory));
  initialise(*state, profile, now_ns);
  return state;
}

void initialise(State& state, const Profile& profile, std::uint64_t now_ns) {
  state.now_ns = now_ns;
  state.profile = profile;
  state.device_count = std::min(profile.count, kMaxDevices);
  for (Device& device : state.devices) {
    device.accounted_ns = now_ns;
    device.active = device.loaded = device.switching_to = kNone;
    std::ranges::fill(device.copying, kNone);
  }
}

std::uint64_t pushed(const State& state, std::uint32_t stream) {
  return state.rings[stream].tail.load(std::memory_order_acquire);
}

std::uint32_t queue_depth(const Profile& profile) {
  return profile.launch_queue_depth == 0 ? kMaxQueued : std::min(profile.launch_queue_depth, kMaxQueued);
}

namespace {

// Returns how many queue places the first `number` commands took.
std::uint64_t places_of(const Ring& ring, std::uint64_t number) {
  return number == 0 ? 0 : ring.commands[(number - 1) % kRingPlaces].place;
}

}  // namespace

std::uint64_t push(State& state, std::uint32_t stream, const Command& command, bool joins) {
  Ring& ring = state.rings[stream];
  const std::uint64_t tail = ring.tail.load(std::memory_order_relaxed), last = places_of(ring, tail);
  // The engine may advance the head meanwhile. A stale head only makes the queue look fuller.
  const std::uint64_t head = std::atomic_ref(state.streams[stream].head).load(std::memory_order_relaxed);
  if (tail - head >= kRingCommands) return 0;
  if (!joins && last - places_of(ring, head) >= queue_depth(state.profile)) return 0;
  Command& taken = ring.commands[tail % kRingPlaces];
  taken = command;
  taken.place = joins ? last : last + 1;
  ring.tail.store(tail + 1, std::memory_order_release);
  return tail + 1;
}

std::uint64_t room_after(const State& state, std::uint32_t stream) {
  const Ring& ring = state.rings[stream];
  const std::uint64_t tail = ring.tail.load(std::memory_order_relaxed), last = places_of(ring, tail);
  std::uint64_t number = std::atomic_ref(state.streams[stream].head).load(std::memory_order_relaxed);
  if (tail - number >= kRingCommands) return tail - kRingCommands + 1;
  const std::uint64_t depth = queue_depth(state.profile);
  while (number < tail && last - places_of(ring, number) >= depth) ++number;
  return number;
}

Command event_record(State& state, std::uint32_t event, std::uint32_t stream, std::uint64_t submit_ns) {
  EventCell& cell = state.events[event];
  Command command;
  command.kind = CommandKind::record;
  command.submit_ns = submit_ns;
  command.event = event;
  command.event_generation = cell.generation;
  command.amount = cell.requested.fetch_add(1, std::memory_order_relaxed) + 1;
  cell.producer.store(stream, std::memory_order_relaxed);
  cell.producer_number.store(pushed(state, stream) + 1, std::memory_order_relaxed);
  return command;
}

Command event_wait(const State& state, std::uint32_t event, std::uint64_t submit_ns) {
  const EventCell& cell = state.events[event];
  Command command;
  command.kind = CommandKind::wait_event;
  command.submit_ns = submit_ns;
  command.event = event;
  command.event_generation = cell.generation;
  command.amount = cell.requested.load(std::memory_order_relaxed);
  return command;
}

EventReading read_event(const State& state, std::uint32_t event) {
  const EventCell& cell = state.events[event];
  const std::uint64_t requested = cell.requested.load(std::memory_order_acquire);
  EventReading reading;
  reading.recorded = requested > 0;
  reading.complete = cell.done.load(std::memory_order_acquire) >= requested;
  if (!reading.recorded || !reading.complete) return reading;
  reading.node_ns = cell.done_ns.load(std::memory_order_acquire);
  const std::uint64_t step = std::max<std::uint64_t>(state.profile.event_step_ns, 1);
  reading.gpu_ns = gpu_clock_ns(state.profile, reading.node_ns) / step * step;
  return reading;
}

std::uint64_t copy_ns(const Profile& profile, CommandKind kind, std::uint64_t bytes) {
  const std::uint64_t rate = std::max<std::uint64_t>(
      kind == CommandKind::copy_on_device ? profile.device_copy_bytes_per_s : profile.host_copy_bytes_per_s, 1);
  if (bytes == 0) return 0;
  const auto ns = static_cast<unsigned __int128>(bytes) * 1'000'000'000u / rate;
  return std::max<std::uint64_t>(1'000, static_cast<std::uint64_t>(ns));
}

std::uint64_t gpu_clock_ns(const Profile& profile, std::uint64_t node_ns) {
  const auto drift = static_cast<__int128>(node_ns) * profile.clock_drift_ppb / 1'000'000'000;
  return node_ns + static_cast<std::uint64_t>(drift) + static_cast<std::uint64_t>(profile.clock_offset_ns);
}

std::uint32_t mps_sms(const Profile& profile, std::uint32_t percent) {
  return std::clamp((profile.sm_count * percent + 99) / 100, 1u, std::max(profile.sm_count, 1u));
}

std::uint32_t sms_needed(const Profile& profile, std::uint64_t blocks) {
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(blocks, 1, std::max(profile.sm_count, 1u)));
}

std::uint64_t wave_ns(const Profile& profile, std::uint64_t blocks, std::uint32_t threads_per_block,
                      std::uint32_t sms) {
  const std::uint32_t by_threads = profile.max_threads_per_sm / std::max(threads_per_block, 1u);
  const std::uint64_t per_sm = std::max(1u, std::min(by_threads, profile.max_blocks_per_sm));
  const std::uint64_t per_wave = std::max<std::uint64_t>(1, per_sm * sms);
  return (blocks + per_wave - 1) / per_wave * profile.block_ns;
}

std::uint32_t held_in_bucket(const History& history, std::uint64_t index) {
  const Bucket& bucket = history.buckets[index % kHistoryBuckets];
  return bucket.index == static_cast<std::uint32_t>(index) ? bucket.held_ns : 0;
}

}  // namespace headgate::sim
