// Creation and removal of a node's objects: processes, accounts, contexts, streams, events, flags, bytes.
#include <algorithm>
#include <cstring>

#include "sim/engine.hpp"

namespace headgate::sim {

std::uint32_t Engine::open_process(const ProcessIdentity& identity) {
  for (std::uint32_t p = 0; p < kMaxProcesses; ++p) {
    if (state_->processes[p].used) continue;
    Process& process = change(state_->processes[p]);
    const std::uint32_t generation = process.generation + 1;
    process.used = 1;
    process.generation = generation;
    process.pid = identity.pid;
    process.image = identity.image;
    process.mps_percent = identity.mps_percent;
    std::ranges::copy(identity.cgroups, process.cgroups);
    process.pid_namespace = identity.pid_namespace;
    process.start_time = identity.start_time;
    process.checkpoint.store(0, std::memory_order_release);
    for (char& c : process.comm) c = 0;
    identity.comm.copy(process.comm, sizeof process.comm - 1);
    commit();
    return p;
  }
  return kNone;
}

void Engine::close_process(std::uint32_t p) {
  if (!state_->processes[p].used) return;
  for (std::uint32_t c = 0; c < state_->context_limit; ++c) {
    if (state_->contexts[c].used && state_->contexts[c].process == p) destroy_context(c);
  }
  for (std::uint32_t e = 0; e < state_->event_limit; ++e) {
    if (!state_->events[e].used || state_->events[e].process != p) continue;
    free_event(e);
    if (e % 1024 == 0) commit();  // safe to commit halfway: the process stays listed until the last line below
  }
  commit();
  for (std::uint32_t f = 0; f < kMaxFlags; ++f) {
    if (state_->flags[f].used && state_->flags[f].process == p) change(state_->flags[f]) = {};
  }
  for (std::uint32_t m = 0; m < state_->shared_limit; ++m) {
    const SharedMemory& shared = state_->shared[m];
    if (shared.used && shared.account != kNone && state_->accounts[shared.account].process == p) disown_shared(m);
  }
  for (std::uint32_t a = 0; a < kMaxAccounts; ++a) {
    if (state_->accounts[a].used == 1 && state_->accounts[a].process == p) bury_account(a);
  }
  change(state_->processes[p]).used = 0;
  ++change(state_->changes);
  commit();
}

void Engine::bury_account(std::uint32_t a) {
  Account& account = change(state_->accounts[a]);
  const std::uint64_t held = account.bytes + account.slack_bytes + account.context_bytes;
  if (state_->profile.teardown_ns == 0 || held == 0) {
    change(state_->devices[account.device]).bytes -= held;
  } else {
    account.teardown_bytes = held;
    ++change(state_->tearing_down);
  }
  account.used = 2;
  account.death_ns = state_->now_ns;
  account.bytes = account.slack_bytes = account.context_bytes = 0;
  account.away_bytes = account.away_slack_bytes = account.away_context_bytes = 0;
  account.contexts = 0;
}

// Prefers the process's own slot, then one never used, then that of the longest dead.
std::uint32_t Engine::next_account_slot(std::uint32_t p, std::uint32_t device) const {
  std::uint32_t place = kNone;
  for (std::uint32_t a = 0; a < kMaxAccounts; ++a) {
    const Account& account = state_->accounts[a];
    if (account.used == 1 && account.process == p && account.device == device) return a;
    if (account.used == 1 || account.teardown_bytes != 0) continue;
    const Account* best = place == kNone ? nullptr : &state_->accounts[place];
    if (!best || (best->used && (!account.used || account.death_ns < best->death_ns))) place = a;
  }
  return place;
}

std::uint32_t Engine::account(std::uint32_t p, std::uint32_t device) {
  const std::uint32_t place = next_account_slot(p, device);
  if (place == kNone || state_->accounts[place].used == 1) return place;
  const Process& process = state_->processes[p];
  Account& account = change(state_->accounts[place]);
  account = {};
  account.used = 1;
  account.process = p;
  account.device = device;
  account.pid = process.pid;
  account.pid_namespace = process.pid_namespace;
  account.start_time = process.start_time;
  std::memcpy(account.comm, process.comm, sizeof account.comm);
  account.birth_ns = state_->now_ns;
  Counters& counters = state_->counters[place];
  for (auto* counter : {&counters.launches, &counters.records, &counters.event_queries, &counters.stream_queries,
                        &counters.synchronisations, &counters.elapsed_times, &counters.copies, &counters.allocations}) {
    counter->store(0, std::memory_order_relaxed);
  }
  // Clears a dead predecessor's history. A free account's history is not read, so a kill in the middle is harmless.
  zero_history(state_->history[place]);
  commit();
  return place;
}

std::uint32_t Engine::create_context(std::uint32_t p, std::uint32_t device) {
  const std::uint32_t a = account(p, device);
  if (a == kNone) return kNone;
  std::uint32_t c = 0;
  while (c < kMaxContexts && state_->contexts[c].used) ++c;
  if (c == kMaxContexts) return kNone;
  account_until(device, state_->now_ns);
  Context& context = change(state_->contexts[c]);
  context = {};
  context.used = 1;
  context.process = p;
  context.device = device;
  context.account = a;
  context.first_stream = kNone;
  if (const std::uint32_t percent = state_->processes[p].mps_percent; percent != 0)
    context.mps_sms = mps_sms(state_->profile, percent);
  if (c >= state_->context_limit) change(state_->context_limit) = c + 1;
  ++change(state_->devices[device]).contexts;
  ++change(state_->accounts[a]).contexts;
  context.legacy = create_stream(c, StreamKind::legacy);
  if (context.legacy == kNone) destroy_context(c);
  commit();
  return state_->contexts[c].used ? c : kNone;
}

void Engine::destroy_context(std::uint32_t c) {
  const Context& context = state_->contexts[c];
  if (!context.used) return;
  account_until(context.device, state_->now_ns);
  const Device& device = state_->devices[context.device];
  while (context.first_stream != kNone) free_stream(context.first_stream);
  if (device.active == c) {
    // The other clients of the MPS server keep the slice.
    std::uint32_t other = kNone;
    each_on(context.device, [&](std::uint32_t on) {
      if (on != c) other = on;
    });
    change(device).active = other;
  }
  if (device.switching_to == c) change(device).switching_to = kNone;
  if (device.loaded == c) change(device).loaded = kNone;
  --change(device).contexts;
  const Account& account = state_->accounts[context.account];
  --change(account).contexts;
  change(context).used = 0;
  commit();
}

std::uint32_t Engine::next_stream_slot() const {
  std::uint32_t s = 0;
  while (s < kMaxStreams && state_->streams[s].kind != StreamKind::unused) ++s;
  return s < kMaxStreams ? s : kNone;
}

std::uint32_t Engine::create_stream(std::uint32_t c, StreamKind kind, Partition partition) {
  const std::uint32_t s = next_stream_slot();
  if (s == kNone) return kNone;
  state_->rings[s].tail.store(0, std::memory_order_release);
  state_->ready[s].number = 0;
  Stream& stream = change(state_->streams[s]);
  stream = {};
  stream.kind = kind;
  stream.context = c;
  stream.free_ns = state_->now_ns;
  change(state_->partitions[s]) = partition;
  const Context& context = state_->contexts[c];
  StreamLink& link = change(state_->links[s]);
  link = {context.first_stream, kNone};
  if (context.first_stream != kNone) change(state_->links[context.first_stream]).previous = s;
  Context& changed = change(context);
  changed.first_stream = s;
  ++changed.stream_count;
  if (kind != StreamKind::legacy) commit();  // a legacy stream is committed with its context
  return s;
}

void Engine::place_stream(std::uint32_t s, Partition partition) {
  change(state_->partitions[s]) = partition;
  commit();
}

void Engine::destroy_stream(std::uint32_t s) {
  if (head_command(s)) change(state_->streams[s]).closing = 1;
  else free_stream(s);
  commit();
}

void Engine::free_stream(std::uint32_t s) {
  Stream& stream = change(state_->streams[s]);
  Context& context = change(state_->contexts[stream.context]);
  stop(s);
  const StreamLink link = state_->links[s];
  if (link.previous != kNone) change(state_->links[link.previous]).next = link.next;
  else context.first_stream = link.next;
  if (link.next != kNone) change(state_->links[link.next]).previous = link.previous;
  --context.stream_count;
  stream = {};
}

std::uint32_t Engine::create_event(std::uint32_t p, std::uint32_t device) {
  for (std::uint32_t tried = 0; tried < kMaxEvents; ++tried) {
    const std::uint32_t e = (state_->hint_event + tried) % kMaxEvents;
    const EventCell& cell = state_->events[e];
    if (cell.used) continue;
    change(state_->hint_event) = (e + 1) % kMaxEvents;
    if (e >= state_->event_limit) change(state_->event_limit) = e + 1;
    // A free cell has no readers, so the owner's fields need no journal.
    EventCell& fresh = const_cast<EventCell&>(cell);
    fresh.requested.store(0, std::memory_order_relaxed);
    fresh.done.store(0, std::memory_order_relaxed);
    fresh.done_ns.store(0, std::memory_order_relaxed);
    fresh.producer.store(kNone, std::memory_order_relaxed);
    change(cell.process) = p;
    change(cell.device) = device;
    change(cell.closing) = 0;
    change(cell.generation) = cell.generation + 1;
    change(cell.used) = 1;
    commit();
    return e;
  }
  return kNone;
}

void Engine::destroy_event(std::uint32_t e) {
  const EventCell& cell = state_->events[e];
  if (cell.requested.load(std::memory_order_relaxed) > cell.done.load(std::memory_order_relaxed))
    change(cell.closing) = 1;
  else free_event(e);
  commit();
}

// Commands that still refer to it find another generation and count as satisfied.
void Engine::free_event(std::uint32_t e) {
  const EventCell& cell = state_->events[e];
  change(cell.generation) = cell.generation + 1;
  change(cell.used) = 0;
}

std::uint32_t Engine::flag(std::uint32_t p, std::uint64_t key) {
  const auto start = static_cast<std::uint32_t>((key * 0x9e3779b97f4a7c15ull + p) >> 40);
  std::uint32_t place = kNone;
  for (std::uint32_t tried = 0; tried < kMaxFlags; ++tried) {
    const std::uint32_t f = (start + tried) % kMaxFlags;
    const Flag& flag = state_->flags[f];
    if (flag.used && flag.process == p && flag.key == key) return f;
    if (!flag.used && place == kNone) place = f;
  }
  if (place == kNone) return kNone;
  change(state_->flags[place]) = {.used = 1, .process = p, .key = key, .value = 0, .set_ns = 0};
  commit();
  return place;
}

void Engine::host_done(std::uint32_t s) {
  if (state_->streams[s].phase != Phase::host) return;
  complete(s);
  ++change(state_->changes);
  commit();
}

bool Engine::host_reached(std::uint32_t s, std::uint64_t number) const {
  const Stream& stream = state_->streams[s];
  return stream.phase == Phase::host && stream.head + 1 == number;
}

}  // namespace headgate::sim
