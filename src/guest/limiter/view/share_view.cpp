#include "guest/limiter/view/share_view.hpp"

#include "guest/ledger/account.hpp"
#include "guest/limiter/memory/draining.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {
namespace {

// Returns host memory that a program sees as card memory.
std::uint64_t shown_host_bytes(std::uint32_t device) {
  const ledger::DevicePolicy& policy = session.policy->devices[device];
  return policy.oversubscribed.load(std::memory_order_relaxed) == 0
             ? 0
             : policy.host_limit_bytes.load(std::memory_order_relaxed);
}

}  // namespace

std::uint64_t share_total(std::uint32_t device, std::uint64_t real_total) {
  const std::uint64_t limit = session.policy->devices[device].memory_limit_bytes.load(std::memory_order_relaxed);
  const std::uint64_t host = shown_host_bytes(device);
  if (host != 0) return limit + host;  // NVML and CUDA report different totals for the card
  return limit < real_total ? limit : real_total;
}

MemoryView share_memory(std::uint32_t device, std::uint64_t real_total, std::uint64_t real_free) {
  look_for_the_dead();              // memory of dead processes is not in use
  settle_draining_in_time(device);  // memory that other processes have freed is not in use either
  refresh_residual_if_old(device);
  const std::uint64_t used = bytes_in_use(device);
  const std::uint64_t limit = session.policy->devices[device].memory_limit_bytes.load(std::memory_order_relaxed);
  MemoryView view = memory_view(real_total, real_free, limit, used);
  if (const std::uint64_t host = shown_host_bytes(device); host != 0) {
    const std::uint64_t host_used = ledger::used_bytes(*session.usage, ledger::host_account(device));
    view.total_bytes = limit + host;
    view.free_bytes += host > host_used ? host - host_used : 0;
  }
  return view;
}

}  // namespace headgate::limiter
