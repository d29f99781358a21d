#include "guest/limiter/memory/context_turn.hpp"

#include <time.h>

#include "guest/bare/clock.hpp"
#include "guest/limiter/session/gpu_pages.hpp"
#include "guest/limiter/session/session.hpp"

namespace headgate::limiter {
namespace {

std::atomic<std::int64_t>& turn_of(std::uint32_t device) {
  ledger::GpuPage* const page = users_gpu_page(device);
  return page != nullptr ? page->context_turn_ns : session.usage->context_turn_ns;
}

}  // namespace

bool ContextTurn::take(std::uint32_t device) {
  const std::int64_t now = bare::host_ns();
  std::atomic<std::int64_t>& turn = turn_of(device);
  std::int64_t seen = turn.load(std::memory_order_acquire);
  // Any tenant can write a time that never comes.
  if (seen > now && seen - now <= kTurnNs) return false;
  device_index_ = device;
  until_ns_ = now + kTurnNs;
  if (turn.compare_exchange_strong(seen, until_ns_)) return true;
  until_ns_ = 0;
  return false;
}

void ContextTurn::leave() {
  if (until_ns_ == 0) return;
  turn_of(device_index_).compare_exchange_strong(until_ns_, 0);  // unless another has taken it since
  until_ns_ = 0;
}

void ContextTurn::rest() {
  const timespec shortly{0, kLookEveryNs};
  ::nanosleep(&shortly, nullptr);
}

}  // namespace headgate::limiter
