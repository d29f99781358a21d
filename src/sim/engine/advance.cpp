// Advances time from one change to the next and keeps the accounts exact in between.
#include <algorithm>

#include "sim/engine.hpp"

namespace headgate::sim {

void Engine::add_history(const History& history, std::uint64_t from_ns, std::uint64_t to_ns) {
  const std::uint64_t kept = kHistoryBuckets * kBucketNs;
  if (to_ns - from_ns > kept) from_ns = to_ns - kept;
  while (from_ns < to_ns) {
    const std::uint64_t index = from_ns / kBucketNs;
    const std::uint64_t end = std::min(to_ns, (index + 1) * kBucketNs);
    Bucket& bucket = change(history.buckets[index % kHistoryBuckets]);
    const auto short_index = static_cast<std::uint32_t>(index);
    if (bucket.index != short_index) bucket = {short_index, 0};
    bucket.held_ns += static_cast<std::uint32_t>(end - from_ns);
    from_ns = end;
  }
}

// Of two busy contexts of a process, only the first counts, because together they hold the device once.
bool Engine::held_by_earlier(std::uint32_t c) const {
  const Context& context = state_->contexts[c];
  for (std::uint32_t other = 0; other < c; ++other) {
    const Context& earlier = state_->contexts[other];
    if (earlier.used && earlier.account == context.account && earlier.resident > 0 && has_device(other)) return true;
  }
  return false;
}

void Engine::account_until(std::uint32_t device, std::uint64_t now_ns) {
  Device& d = change(state_->devices[device]);
  const std::uint64_t from_ns = d.accounted_ns;
  if (now_ns <= from_ns) return;
  d.accounted_ns = now_ns;
  if (d.active == kNone) return;
  const std::uint64_t span_ns = now_ns - from_ns;
  bool busy = false;
  each_on(device, [&](std::uint32_t c) {
    const Context& context = state_->contexts[c];
    if (context.resident == 0) return;
    busy = true;
    Account& account = change(state_->accounts[context.account]);
    account.sm_ns_sms += span_ns * context.sms_used;
    if (held_by_earlier(c)) return;
    account.held_ns += span_ns;
    if (context.spinning == context.resident) account.spin_ns += span_ns;
    add_history(state_->history[context.account], from_ns, now_ns);
  });
  if (!busy) return;
  d.busy_ns += span_ns;
  add_history(state_->device_history[device], from_ns, now_ns);
}

std::uint64_t Engine::next_change_of(std::uint32_t device) const {
  const Device& d = state_->devices[device];
  std::uint64_t next = kNever;
  if (d.contexts == 0) return next;
  for (const std::uint32_t stream : d.copying) {
    if (stream != kNone) next = std::min(next, state_->streams[stream].end_ns);
  }
  for (std::uint32_t c = 0; c < state_->context_limit; ++c) {
    const Context& context = state_->contexts[c];
    if (!context.used || context.device != device) continue;
    for (std::uint32_t s = context.first_stream; s != kNone; s = state_->links[s].next) {
      const Stream& stream = state_->streams[s];
      if (stream.phase == Phase::kernel && has_device(c)) {
        // A kernel that is overdue when its slice begins is ended just after.
        next = std::min({next, stream.end_ns, std::max(overdue_ns(stream), state_->now_ns + 1)});
      }
      if (stream.phase != Phase::idle) continue;
      const Ready* head = head_facts(s);
      if (head && head->ready_ns > state_->now_ns) next = std::min(next, head->ready_ns);
    }
  }
  if (d.switching_to != kNone) next = std::min(next, std::max(d.switch_end_ns, state_->now_ns + 1));
  if (d.active != kNone && d.contexts > 1 && d.slice_end_ns > state_->now_ns && d.slice_end_ns < next &&
      next_runnable(device, d.active) != kNone) {
    next = d.slice_end_ns;
  }
  return next;
}

std::uint64_t Engine::next_change_ns() const {
  std::uint64_t next = kNever;
  for (std::uint32_t d = 0; d < state_->device_count; ++d) next = std::min(next, next_change_of(d));
  return next;
}

// While a kernel runs, time advances in steps of a second: the writes of one step must fit the journal.
std::uint64_t Engine::step_end_ns() const {
  for (std::uint32_t d = 0; d < state_->device_count; ++d) {
    bool busy = false;
    each_on(d, [&](std::uint32_t c) { busy = busy || state_->contexts[c].resident > 0; });
    if (busy) return state_->now_ns + 1'000'000'000;
  }
  return kNever;
}

void Engine::advance(std::uint64_t now_ns) {
  end_teardowns(now_ns);
  settle_all();  // work pushed since the last call
  while (true) {
    const std::uint64_t next = std::min({next_change_ns(), now_ns, step_end_ns()});
    if (next <= state_->now_ns) return;
    for (std::uint32_t d = 0; d < state_->device_count; ++d) {
      if (state_->devices[d].contexts != 0) account_until(d, next);
    }
    change(state_->now_ns) = next;
    commit();
    settle_all();
  }
}

}  // namespace headgate::sim
