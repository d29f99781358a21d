// Computes the earliest completion of a command, so that a waiter can sleep until then.
#include <algorithm>

#include "sim/engine.hpp"

namespace headgate::sim {
namespace {
constexpr int kDeepest = 4;  // streams that wait for events of streams that wait ...
// Limits the waits followed by one prediction: a graph's branches wait for each other hundreds of times. An ignored
// wait makes the result too early, never too late.
constexpr int kMaxWaits = 64;
}  // namespace

// The active context keeps the device until its slice ends or it has nothing more to run.
std::uint64_t Engine::earliest_turn_ns(std::uint32_t c) const {
  const Device& d = state_->devices[state_->contexts[c].device];
  if (d.switching_to != kNone) return std::max(state_->now_ns, d.switch_end_ns);
  if (d.active == kNone || has_device(c)) return state_->now_ns;
  std::uint64_t dry_ns = state_->now_ns;
  each_on(state_->contexts[c].device, [&](std::uint32_t on) { dry_ns = std::max(dry_ns, dry_of(on, d.slice_end_ns)); });
  return std::min(std::max(state_->now_ns, d.slice_end_ns), dry_ns);
}

// Returns the earliest time at which this context may run out of work, judged by kernels alone.
std::uint64_t Engine::dry_of(std::uint32_t c, std::uint64_t slice_end_ns) const {
  const Context& active = state_->contexts[c];
  if (active.spinning > 0) return std::max(state_->now_ns, slice_end_ns);
  std::uint64_t dry_ns = state_->now_ns;
  for (std::uint32_t s = active.first_stream; s != kNone; s = state_->links[s].next) {
    const Stream& stream = state_->streams[s];
    if (stream.phase != Phase::kernel) continue;
    std::uint64_t end_ns = stream.end_ns;
    const std::uint64_t tail = state_->rings[s].tail.load(std::memory_order_acquire);
    for (std::uint64_t i = stream.head + 1; i < tail && end_ns < slice_end_ns; ++i) {
      const Command& command = state_->rings[s].commands[i % kRingPlaces];
      if (command.kind != CommandKind::kernel) break;
      end_ns += command.amount;
    }
    dry_ns = std::max(dry_ns, end_ns);
  }
  return dry_ns;
}

std::uint64_t Engine::earliest(std::uint32_t s, std::uint64_t number, int depth, int* waits) const {
  const Stream& stream = state_->streams[s];
  if (stream.kind == StreamKind::unused || stream.head >= number) return state_->now_ns;
  const bool active = has_device(stream.context);
  std::uint64_t t = state_->now_ns;
  if (!active && stream.phase != Phase::copy) t = std::max(t, earliest_turn_ns(stream.context));
  const std::uint64_t last = std::min(number, state_->rings[s].tail.load(std::memory_order_acquire));
  for (std::uint64_t i = stream.head; i < last; ++i) {
    const Command& command = state_->rings[s].commands[i % kRingPlaces];
    const bool under_way = i == stream.head && stream.phase != Phase::idle;
    if (!under_way) t = std::max(t, command.submit_ns + state_->profile.submit_ns);
    switch (command.kind) {
      case CommandKind::kernel:
        if (under_way ? stream.end_ns == kNever
                      : command.wait_flag != kNone && !state_->flags[command.wait_flag].set()) {
          return kNever;
        }
        t = !under_way ? t + command.amount - overlap_ns(s, i, t)
            : active   ? std::max(t, stream.end_ns)
                       : t + stream.end_ns;
        break;
      case CommandKind::copy_to_device:
      case CommandKind::copy_to_host:
      case CommandKind::copy_on_device:
        t = under_way ? std::max(t, stream.end_ns) : t + copy_ns(state_->profile, command.kind, command.amount);
        break;
      case CommandKind::wait_event: {
        if (event_satisfied(command)) break;
        const EventCell& cell = state_->events[command.event];
        const std::uint32_t producer = cell.producer.load(std::memory_order_relaxed);
        if (producer == kNone || producer == s || depth >= kDeepest || --*waits < 0) break;
        const std::uint64_t e =
            earliest(producer, cell.producer_number.load(std::memory_order_relaxed), depth + 1, waits);
        if (e == kNever) return kNever;
        t = std::max(t, e);
        break;
      }
      case CommandKind::wait_flag:
        if (!flag_satisfied(command)) return kNever;
        break;
      case CommandKind::host_function: return kNever;
      case CommandKind::record:
      case CommandKind::set_flag: break;
    }
  }
  return t;
}

std::uint64_t Engine::earliest_finish_ns(std::uint32_t stream, std::uint64_t number) const {
  int waits = kMaxWaits;
  return earliest(stream, number, 0, &waits);
}

}  // namespace headgate::sim
