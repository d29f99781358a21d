// Which commands a context may start: those at the heads of its streams, in the order in which they became ready.
#include <algorithm>
#include <bitset>

#include "sim/engine.hpp"

namespace headgate::sim {
namespace {

constexpr std::uint32_t kMaxResident = 128;  // concurrent kernels on one device

std::uint32_t engine_of(CommandKind kind) {
  return kind == CommandKind::copy_to_device ? 0 : kind == CommandKind::copy_to_host ? 1 : 2;
}

bool is_copy(CommandKind kind) {
  return kind == CommandKind::copy_to_device || kind == CommandKind::copy_to_host ||
         kind == CommandKind::copy_on_device;
}

// One bit per partition. If several share a bit, a full one only delays the others.
std::uint64_t partition_bit(Partition partition) { return partition.id == 0 ? 0 : 1ull << partition.id % 64; }

}  // namespace

const Command* Engine::head_command(std::uint32_t stream) const {
  const Ring& ring = state_->rings[stream];
  const std::uint64_t head = state_->streams[stream].head;
  return head < ring.tail.load(std::memory_order_acquire) ? &ring.commands[head % kRingPlaces] : nullptr;
}

const Ready* Engine::head_facts(std::uint32_t s) const {
  Ready& known = state_->ready[s];
  const Stream& stream = state_->streams[s];
  if (known.number == stream.head + 1) return &known;
  const Command* command = head_command(s);
  if (!command) return nullptr;
  known.number = 0;
  known.ready_ns = std::max(stream.free_ns, command->submit_ns + state_->profile.submit_ns);
  known.order = command->order;
  known.kind = command->kind;
  std::atomic_signal_fence(std::memory_order_release);
  known.number = stream.head + 1;
  return &known;
}

// The legacy default stream and the blocking streams of its context wait for each other's older commands.
bool Engine::in_order(std::uint32_t s, std::uint64_t order) const {
  const Stream& stream = state_->streams[s];
  const Context& context = state_->contexts[stream.context];
  if (stream.kind == StreamKind::blocking) {
    const Ready* older = head_facts(context.legacy);
    return !older || older->order > order;
  }
  if (stream.kind != StreamKind::legacy) return true;
  for (std::uint32_t other = context.first_stream; other != kNone; other = state_->links[other].next) {
    if (state_->streams[other].kind != StreamKind::blocking) continue;
    const Ready* older = head_facts(other);
    if (older && older->order < order) return false;
  }
  return true;
}

bool Engine::event_satisfied(const Command& command) const {
  const EventCell& cell = state_->events[command.event];
  return cell.generation != command.event_generation || cell.done.load(std::memory_order_relaxed) >= command.amount;
}

bool Engine::flag_satisfied(const Command& command) const {
  const bool wide = (command.detail & kFlagWide) != 0;
  const std::uint64_t mask = wide ? ~0ull : 0xffffffffull;
  const std::uint64_t flag = state_->flags[command.wait_flag].value & mask, value = command.amount & mask;
  switch (command.detail & kFlagComparison) {
    case kFlagEqual: return flag == value;
    case kFlagAnd: return (flag & value) != 0;
    case kFlagNor: return (~(flag | value) & mask) != 0;
    default:  // cyclic, for counters that wrap
      return wide ? static_cast<std::int64_t>(flag - value) >= 0
                  : static_cast<std::int32_t>(static_cast<std::uint32_t>(flag - value)) >= 0;
  }
}

bool Engine::startable(std::uint32_t s) const {
  const Stream& stream = state_->streams[s];
  if (stream.phase != Phase::idle) return false;
  const Ready* head = head_facts(s);
  if (!head || head->ready_ns > state_->now_ns) return false;
  if (state_->contexts[stream.context].error != 0) return true;
  if (!in_order(s, head->order)) return false;
  switch (head->kind) {
    case CommandKind::wait_event: return event_satisfied(*head_command(s));
    case CommandKind::wait_flag: return flag_satisfied(*head_command(s));
    case CommandKind::copy_to_device:
    case CommandKind::copy_to_host:
    case CommandKind::copy_on_device:
      return state_->devices[state_->contexts[stream.context].device].copying[engine_of(head->kind)] == kNone;
    default: return true;
  }
}

bool Engine::runnable(std::uint32_t c) const {
  const Context& context = state_->contexts[c];
  if (context.resident > 0) return true;
  for (std::uint32_t s = context.first_stream; s != kNone; s = state_->links[s].next) {
    if (startable(s)) return true;
  }
  return false;
}

void Engine::execute_record(const Command& command) {
  const EventCell& cell = state_->events[command.event];
  if (cell.generation != command.event_generation || cell.done.load(std::memory_order_relaxed) >= command.amount)
    return;
  // Readers load `done` without the lock, so the time must be stored first.
  change(cell.done_ns).store(state_->now_ns, std::memory_order_release);
  change(cell.done).store(command.amount, std::memory_order_release);
  if (cell.closing && cell.requested.load(std::memory_order_relaxed) <= command.amount) free_event(command.event);
}

bool Engine::start_copy(std::uint32_t s, const Command& command) {
  Stream& stream = change(state_->streams[s]);
  const std::uint32_t engine = engine_of(command.kind);
  change(state_->devices[state_->contexts[stream.context].device].copying[engine]) = s;
  stream.phase = Phase::copy;
  stream.engine = engine;
  stream.phase_ns = state_->now_ns;
  stream.end_ns = state_->now_ns + copy_ns(state_->profile, command.kind, command.amount);
  return true;
}

bool Engine::step_instant(std::uint32_t s, const Command& command) {
  if (state_->contexts[state_->streams[s].context].error != 0 && command.kind != CommandKind::host_function) {
    drop(s, command);
    return true;
  }
  if (is_copy(command.kind)) return start_copy(s, command);
  switch (command.kind) {
    case CommandKind::record: execute_record(command); break;
    case CommandKind::set_flag: {
      const std::uint64_t kept =
          command.detail & kFlagWide ? 0 : state_->flags[command.set_flag].value & ~0xffffffffull;
      write_flag(command.set_flag,
                 kept | (command.detail & kFlagWide ? command.amount : static_cast<std::uint32_t>(command.amount)));
      break;
    }
    case CommandKind::host_function: {
      Stream& stream = change(state_->streams[s]);
      stream.phase = Phase::host;
      stream.phase_ns = state_->now_ns;
      ++change(state_->changes);
      return true;
    }
    default: break;  // a wait that is over
  }
  complete(s);
  return true;
}

// The most SMs that the context may use at once.
std::uint32_t Engine::sms_of(const Context& context) const {
  return context.mps_sms != 0 ? context.mps_sms : state_->profile.sm_count;
}

std::uint32_t Engine::free_sms(std::uint32_t s) const {
  const Context& context = state_->contexts[state_->streams[s].context];
  std::uint32_t taken = 0;
  each_on(context.device, [&](std::uint32_t c) { taken += state_->contexts[c].sms_used; });
  const std::uint32_t free = std::min(state_->profile.sm_count - taken, sms_of(context) - context.sms_used);
  const Partition mine = state_->partitions[s];
  if (mine.id == 0) return free;
  std::uint32_t used = 0;
  for (std::uint32_t other = context.first_stream; other != kNone; other = state_->links[other].next)
    if (state_->partitions[other].id == mine.id) used += state_->streams[other].sms;
  return std::min(free, mine.sms - std::min(mine.sms, used));
}

bool Engine::fits(std::uint32_t s, const Command& command, std::uint32_t* sms) const {
  const Context& context = state_->contexts[state_->streams[s].context];
  const Partition mine = state_->partitions[s];
  const std::uint32_t free = free_sms(s);
  *sms = std::clamp(command.sms, 1u, mine.id != 0 ? std::min(mine.sms, sms_of(context)) : sms_of(context));
  if (context.resident >= kMaxResident || free == 0) return false;
  // The kernel that sets the flag must be able to run next to those that spin on it, even if in more waves.
  if (*sms > free && context.spinning == context.resident) *sms = free;
  return *sms <= free;
}

// Returns how long command `number` (from 0), started at start_ns, ran beside the tail of its predecessor, which has
// just ended. The predecessor must be a kernel, and the command must have been queued in time.
std::uint64_t Engine::overlap_ns(std::uint32_t s, std::uint64_t number, std::uint64_t start_ns) const {
  const auto& commands = state_->rings[s].commands;
  const Command& command = commands[number % kRingPlaces];
  if (command.kind != CommandKind::kernel || (command.detail & kOverlapsPredecessor) == 0 || number == 0) return 0;
  const Command& before = commands[(number - 1) % kRingPlaces];
  const std::uint64_t here_ns = command.submit_ns + state_->profile.submit_ns;
  if (before.kind != CommandKind::kernel || start_ns <= here_ns) return 0;
  return std::min({state_->profile.dependent_overlap_ns, start_ns - here_ns, before.amount, command.amount});
}

std::uint32_t Engine::oldest_kernel(std::uint32_t c, std::uint64_t full_partitions) const {
  std::uint32_t oldest = kNone;
  std::uint64_t oldest_ready = kNever, oldest_order = kNever;
  for (std::uint32_t s = state_->contexts[c].first_stream; s != kNone; s = state_->links[s].next) {
    if (state_->streams[s].phase != Phase::idle || (partition_bit(state_->partitions[s]) & full_partitions) != 0)
      continue;
    const Ready* head = head_facts(s);
    if (!head || head->kind != CommandKind::kernel) continue;
    if (head->ready_ns > oldest_ready || (head->ready_ns == oldest_ready && head->order > oldest_order)) continue;
    if (!startable(s)) continue;
    oldest = s;
    oldest_ready = head->ready_ns;
    oldest_order = head->order;
  }
  return oldest;
}

// Starts the oldest ready kernel of the context if the SMs suffice. Younger ones do not overtake it, except in another
// partition if its own is full.
bool Engine::start_kernel(std::uint32_t c) {
  const Context& context = state_->contexts[c];
  if (context.sms_used >= sms_of(context) || context.error != 0) return false;
  std::uint32_t oldest = kNone, sms = 0;
  for (std::uint64_t full = 0;;) {
    oldest = oldest_kernel(c, full);
    if (oldest == kNone) return false;
    if (fits(oldest, *head_command(oldest), &sms)) break;
    if (state_->partitions[oldest].id == 0) return false;
    full |= partition_bit(state_->partitions[oldest]);
  }
  const Command& command = *head_command(oldest);
  const bool spins = command.wait_flag != kNone && !state_->flags[command.wait_flag].set();
  Stream& stream = change(state_->streams[oldest]);
  stream.phase = Phase::kernel;
  stream.phase_ns = state_->now_ns;
  stream.sms = sms;
  const std::uint64_t early_ns =
      !spins && stream.free_ns == state_->now_ns ? overlap_ns(oldest, stream.head, state_->now_ns) : 0;
  // `amount` is the time on the SMs that the kernel asks for. An MPS client may have fewer; then it takes
  // proportionally longer.
  const std::uint64_t most = sms_of(context), wanted = std::max<std::uint64_t>(command.sms, most);
  const std::uint64_t long_ns = (command.amount - early_ns) * wanted / most;
  stream.end_ns = spins ? kNever : state_->now_ns + long_ns;
  Context& changed = change(context);
  ++changed.resident;
  changed.sms_used += sms;
  if (spins) ++changed.spinning;
  if (early_ns != 0) ++change(state_->accounts[context.account]).overlaps;
  return true;
}

bool Engine::start_ready(std::uint32_t device) {
  const Device& d = state_->devices[device];
  if (d.active == kNone) return false;
  bool any = false;
  each_on(device, [&](std::uint32_t c) { any |= start_instants(c); });
  while (start_oldest(device)) any = true;
  return any;
}

// Among MPS clients, starts the kernel that has been ready longest. A client with nothing running waits for the others'
// SMs and is not overtaken.
bool Engine::start_oldest(std::uint32_t device) {
  if (state_->contexts[state_->devices[device].active].mps_sms == 0)
    return start_kernel(state_->devices[device].active);
  for (std::bitset<kMaxContexts> refused;;) {
    std::uint32_t oldest = kNone;
    std::uint64_t ready_ns = kNever;
    each_on(device, [&](std::uint32_t c) {
      const std::uint32_t s = refused[c] || state_->contexts[c].error != 0 ? kNone : oldest_kernel(c, 0);
      if (s == kNone || head_facts(s)->ready_ns >= ready_ns) return;
      oldest = c;
      ready_ns = head_facts(s)->ready_ns;
    });
    if (oldest == kNone) return false;
    if (start_kernel(oldest)) return true;
    if (state_->contexts[oldest].resident == 0) return false;
    refused[oldest] = true;
  }
}

bool Engine::start_instants(std::uint32_t active) {
  bool any = false;
  std::uint32_t next = kNone;
  for (std::uint32_t s = state_->contexts[active].first_stream; s != kNone; s = next) {
    next = state_->links[s].next;
    if (state_->streams[s].phase != Phase::idle) continue;
    const Ready* head = head_facts(s);
    const bool waits_for_sms = head && head->kind == CommandKind::kernel && state_->contexts[active].error == 0;
    if (!head || waits_for_sms || !startable(s)) continue;
    const Command command = *head_command(s);
    any |= step_instant(s, command);
  }
  return any;
}

}  // namespace headgate::sim
