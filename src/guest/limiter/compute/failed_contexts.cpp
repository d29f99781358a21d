// Contexts in which measuring has failed: when to try again, and what their launches do until then.
#include <algorithm>

#include "guest/limiter/compute/stream_table.hpp"

namespace headgate::limiter {
namespace {

// Call under the settler's lock. Settles what was in progress by estimate. Returns false if a stream of the context is
// in use just now.
bool resume(ContextMeter& context) {
  const std::int64_t now_ns = port.now_ns();
  bool all = true;
  for (StreamMeter& stream : metered.used_streams()) {
    if (!stream.used.load() || stream.context != &context) continue;
    if (!stream.lock.try_lock()) {
      all = false;
      continue;
    }
    tell_lane(stream, true);
    meter.abandon(stream, now_ns);
    stream.lock.unlock();
  }
  if (all && context.failed.load()) {
    const CurrentContext as(context.handle);
    return_prepaid(context);
    meter.resume(context);
    move_lane_epoch();
  }
  return all;
}

void tell_unmetered(ContextMeter& context) {
  if (!context.failure_told.exchange(true)) port.failed(context, context.failure.load(), context.failed_call.load());
}

bool try_again(ContextMeter& context) {
  if (!metered.settler_lock.try_lock()) return false;
  const bool done = resume(context);
  metered.settler_lock.unlock();
  return done;
}

}  // namespace

std::int64_t resume_failed(std::int64_t now_ns) {
  std::int64_t next = kNothingOpen;
  for (ContextMeter& context : metered.used_contexts()) {
    if (context.handle == nullptr || !context.failed.load(std::memory_order_acquire)) continue;
    const std::int64_t retry_ns = context.retry_ns.load();
    if (retry_ns == kNeverMetered || (now_ns >= retry_ns && resume(context))) continue;
    next = std::min(next, std::max(retry_ns, now_ns + kFirstRetryNs));
  }
  return next;
}

bool can_measure(ContextMeter& context) {
  while (context.failed.load(std::memory_order_acquire)) {
    const std::int64_t retry_ns = context.retry_ns.load(), now_ns = port.now_ns();
    if (retry_ns == kNeverMetered) return false;
    if (now_ns >= retry_ns && try_again(context)) return true;
    const std::int64_t failing_ns = context.failing_ns.load();
    if (failing_ns != 0 && now_ns - failing_ns >= kUnmeteredNs) {
      tell_unmetered(context);
      return false;
    }
    pause_thread();
  }
  return true;
}

}  // namespace headgate::limiter
