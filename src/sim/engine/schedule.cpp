// Which context has the device: kernels end, and slices pass from context to context.
#include <algorithm>

#include "sim/engine.hpp"

namespace headgate::sim {
namespace {

// No driver says how long its slices are: a short one is half of the profile's here, a long one twice.
std::uint64_t slice_ns_of(const State& state, std::uint32_t device) {
  const std::uint64_t usual_ns = std::max<std::uint64_t>(state.profile.slice_ns, 2);
  const std::uint32_t length = state.nvml[device].time_slice;
  return length == kShortTimeSlice ? usual_ns / 2 : length == kLongTimeSlice ? usual_ns * 2 : usual_ns;
}

}  // namespace

void Engine::settle_all() {
  bool again = true;
  // A flag set by one device may end a spin on another at the same instant.
  while (again) {
    const std::uint64_t changes = state_->changes;
    for (std::uint32_t d = 0; d < state_->device_count; ++d) {
      if (state_->devices[d].contexts != 0) settle(d);
    }
    again = state_->changes != changes;
  }
}

bool Engine::settle(std::uint32_t device) {
  bool any = false;
  while (true) {
    const bool finished = finish_due(device);
    choose_context(device);
    const bool started = start_ready(device);
    commit();
    if (!finished && !started) return any;
    any = true;
  }
}

bool Engine::finish_copies(std::uint32_t device) {
  bool any = false;
  for (const std::uint32_t& copying : state_->devices[device].copying) {
    if (copying == kNone) continue;
    const std::uint32_t s = copying;
    const Stream& stream = state_->streams[s];
    if (stream.end_ns > state_->now_ns) continue;
    change(state_->accounts[state_->contexts[stream.context].account]).copy_ns += stream.end_ns - stream.phase_ns;
    change(copying) = kNone;
    complete(s);
    any = true;
  }
  return any;
}

bool Engine::finish_due(std::uint32_t device) {
  bool any = finish_copies(device);
  each_on(device, [&](std::uint32_t c) { any |= finish_kernels(c); });
  return any;
}

bool Engine::finish_kernels(std::uint32_t c) {
  bool any = state_->profile.watchdog_ns != 0 && end_overdue(c);
  const Context& context = state_->contexts[c];
  std::uint32_t next = kNone, unseen = context.resident;
  for (std::uint32_t s = context.first_stream; s != kNone && unseen > 0; s = next) {
    next = state_->links[s].next;
    const Stream& stream = state_->streams[s];
    if (stream.phase != Phase::kernel) continue;
    --unseen;
    if (stream.end_ns == kNever) {
      const Command& command = *head_command(s);
      if (!state_->flags[command.wait_flag].set()) continue;
      change(stream).end_ns = state_->now_ns + command.amount;
      --change(context).spinning;
      any = true;
    }
    if (stream.end_ns <= state_->now_ns) {
      finish_kernel(s);
      any = true;
    }
  }
  return any;
}

void Engine::finish_kernel(std::uint32_t s) {
  const Stream& stream = state_->streams[s];
  const Command command = *head_command(s);
  if (const auto error = static_cast<std::uint32_t>(command.detail >> kFaultShift); error != 0)
    return fail_context(stream.context, error);
  Context& context = change(state_->contexts[stream.context]);
  --context.resident;
  context.sms_used -= stream.sms;
  ++change(state_->accounts[context.account].kernels);
  complete(s);
  if (command.set_flag != kNone)
    write_flag(command.set_flag, (state_->flags[command.set_flag].value & ~0xffffffffull) | 1);
}

void Engine::complete(std::uint32_t s) {
  Stream& stream = change(state_->streams[s]);
  ++stream.head;
  stream.phase = Phase::idle;
  stream.sms = 0;
  stream.free_ns = state_->now_ns;
  if (stream.closing && !head_command(s)) free_stream(s);
}

void Engine::write_flag(std::uint32_t f, std::uint64_t value) {
  Flag& flag = change(state_->flags[f]);
  flag.value = value;
  flag.set_ns = state_->now_ns;
  ++change(state_->changes);
}

std::uint32_t Engine::next_runnable(std::uint32_t device, std::uint32_t not_this) const {
  std::uint32_t best = kNone;
  for (std::uint32_t c = 0; c < state_->context_limit; ++c) {
    const Context& context = state_->contexts[c];
    if (!context.used || context.device != device || (not_this != kNone && has_device(c))) continue;
    if (best != kNone && context.last_active >= state_->contexts[best].last_active) continue;
    if (runnable(c)) best = c;
  }
  return best;
}

// A lone context's slice is renewed by whole slices, so that the result does not depend on when advance() is called.
void Engine::choose_context(std::uint32_t device) {
  const Device& d = state_->devices[device];
  const std::uint64_t now_ns = state_->now_ns;
  if (d.switching_to != kNone) {
    if (now_ns >= d.switch_end_ns) begin_slice(device, d.switching_to);
    return;
  }
  if (any_runnable_on(device)) {
    if (now_ns < d.slice_end_ns) return;
    const std::uint32_t other = now_ns == d.slice_end_ns && d.contexts > 1 ? next_runnable(device, d.active) : kNone;
    if (other != kNone) return give_slice(device, other);
    const std::uint64_t slice_ns = slice_ns_of(*state_, device);
    change(d).slice_end_ns += ((now_ns - d.slice_end_ns) / slice_ns + 1) * slice_ns;
    return;
  }
  const std::uint32_t other = next_runnable(device, kNone);
  if (other != d.active) give_slice(device, other);
}

void Engine::give_slice(std::uint32_t device, std::uint32_t to) {
  Device& d = change(state_->devices[device]);
  const std::uint64_t now_ns = state_->now_ns;
  shift_kernels(device, 0 - now_ns);
  d.active = kNone;
  if (to == kNone) return;
  const auto mps = [&](std::uint32_t c) { return state_->contexts[c].mps_sms != 0; };
  const bool other = d.loaded != kNone && d.loaded != to && !(mps(d.loaded) && mps(to));
  if (!other || state_->profile.switch_ns == 0) return begin_slice(device, to);
  d.switching_to = to;
  d.switch_end_ns = now_ns + state_->profile.switch_ns;
}

void Engine::begin_slice(std::uint32_t device, std::uint32_t to) {
  Device& d = change(state_->devices[device]);
  const std::uint64_t now_ns = state_->now_ns;
  d.switching_to = kNone;
  d.active = d.loaded = to;
  d.slice_end_ns = now_ns + slice_ns_of(*state_, device);
  ++d.turn;
  each_on(device, [&](std::uint32_t c) { change(state_->contexts[c]).last_active = d.turn; });
  shift_kernels(device, now_ns);
}

// Kernels with the device have an end time; others have their remaining time.
void Engine::shift_kernels(std::uint32_t device, std::uint64_t by_ns) {
  each_on(device, [&](std::uint32_t c) {
    for (std::uint32_t s = state_->contexts[c].first_stream; s != kNone; s = state_->links[s].next) {
      const Stream& stream = state_->streams[s];
      if (stream.phase == Phase::kernel && stream.end_ns != kNever) change(stream).end_ns += by_ns;
    }
  });
}

bool Engine::has_device(std::uint32_t c) const {
  const Context& context = state_->contexts[c];
  const std::uint32_t active = state_->devices[context.device].active;
  return c == active || (active != kNone && context.mps_sms != 0 && state_->contexts[active].mps_sms != 0);
}

bool Engine::any_runnable_on(std::uint32_t device) const {
  bool any = false;
  each_on(device, [&](std::uint32_t c) { any = any || runnable(c); });
  return any;
}

}  // namespace headgate::sim
