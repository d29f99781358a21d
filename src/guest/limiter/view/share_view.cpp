#include "guest/limiter/view/share_view.hpp"

#include "guest/ledger/account.hpp"
#include "guest/limiter/memory/draining.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {
std::uint64_t share_total(std::uint32_t device, std::uint64_t real_total) {
  const std::uint64_t limit = session.policy->devices[device].memory_limit_bytes.load(std::memory_order_relaxed);
  return limit < real_total ? limit : real_total;
}

MemoryView share_memory(std::uint32_t device, std::uint64_t real_total, std::uint64_t real_free) {
  look_for_the_dead();              // what died is not in use
  settle_draining_in_time(device);  // nor what others have let go of
  refresh_residual_if_old(device);
  std::uint64_t used = 0;
  if (__builtin_add_overflow(ledger::used_bytes(*session.usage, device), share_residual(device, coarse_now_ns()),
                             &used))
    used = ~0ull;
  const std::uint64_t limit = session.policy->devices[device].memory_limit_bytes.load(std::memory_order_relaxed);
  return memory_view(real_total, real_free, limit, used);
}

}  // namespace headgate::limiter
