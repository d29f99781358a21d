#include "guest/limiter/view/share_view.hpp"

#include <atomic>

#include "guest/ledger/account.hpp"
#include "guest/ledger/slot.hpp"
#include "guest/limiter/memory/draining.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {
namespace {

struct Shown {
  std::atomic<std::uint64_t> free_bytes;
  std::atomic<std::int64_t> at_ns;  // 0: never
};
Shown shown[ledger::kMaxDevices];

}  // namespace

std::uint64_t share_total(std::uint32_t device, std::uint64_t real_total) {
  const std::uint64_t limit = session.policy->devices[device].memory_limit_bytes.load(std::memory_order_relaxed);
  return limit < real_total ? limit : real_total;
}

MemoryView share_memory(std::uint32_t device, std::uint64_t real_total, std::uint64_t real_free) {
  reap_the_dead();          // what died is not in use
  settle_draining(device);  // nor what others have let go of
  refresh_residual_if_old(device);
  std::uint64_t used = 0;
  if (__builtin_add_overflow(ledger::used_bytes(*session.usage, device), share_residual_now(device), &used))
    used = ~0ull;
  const std::uint64_t limit = session.policy->devices[device].memory_limit_bytes.load(std::memory_order_relaxed);
  MemoryView view = memory_view(real_total, real_free, limit, used);
  const std::int64_t now = coarse_now_ns();
  const std::int64_t before = shown[device].at_ns.load(std::memory_order_relaxed);
  if (before != 0) {
    view.free_bytes = eased_free(shown[device].free_bytes.load(std::memory_order_relaxed), view.free_bytes,
                                 view.total_bytes, now - before);
  }
  shown[device].free_bytes.store(view.free_bytes, std::memory_order_relaxed);
  shown[device].at_ns.store(now, std::memory_order_relaxed);
  return view;
}

}  // namespace headgate::limiter
