#include "guest/limiter/memory/untold.hpp"

#include <atomic>

#include "guest/bare/keep_errno.hpp"
#include "guest/bare/saturating.hpp"
#include "guest/ledger/account.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/route/forward.hpp"

namespace headgate::limiter {
constinit AllocationTable untold;

void untold_may_go(std::uint64_t context) { untold.mark_owned(context); }

void untold_gone(std::uint64_t context) {
  std::uint64_t bytes[ledger::kMaxAccounts] = {};
  untold.sweep_marked(context, bytes);
  for (std::uint32_t device = 0; device < ledger::kMaxDevices; ++device) residual_falls(device, bytes[device]);
}

bool is_limited(const Place& place) {
  if (place.standing != Standing::held || !seated() || place.device_index >= ledger::kMaxDevices) return false;
  return session.policy->devices[place.device_index].memory_limit_bytes.load(std::memory_order_relaxed) !=
         ledger::kNoMemoryLimit;
}

bool has_room(const Place& place, std::uint64_t bytes) {
  const std::uint32_t device = place.device_index;
  measure_residual_if_due(device);
  std::uint64_t sum = share_residual(device, coarse_now_ns());
  return !__builtin_add_overflow(sum, ledger::used_bytes(*session.usage, device), &sum) &&
         !__builtin_add_overflow(sum, bytes, &sum) &&
         sum <= session.policy->devices[device].memory_limit_bytes.load(std::memory_order_relaxed);
}

std::size_t free_on_card() {
  std::size_t free = 0, total = 0;
  return forward(driver.cuMemGetInfo_v2, &free, &total) == abi::CUDA_SUCCESS ? free : SIZE_MAX;
}

std::uint64_t measured_growth(std::uint32_t device, std::uint64_t before, std::uint64_t less_free) {
  const bare::KeepErrno keep_errno;
  const bool measured = refresh_residual(device);
  const std::uint64_t bytes = bare::saturating_sub(own_residual(device), before);
  if (measured || less_free == kUntold) return residual_rose(device, bytes), bytes;
  residual_rises(device, less_free);
  return less_free;
}

bool growth_fits(std::uint32_t device, std::uint64_t bytes) {
  const std::uint64_t limit = session.policy->devices[device].memory_limit_bytes.load(std::memory_order_relaxed);
  std::uint64_t used = 0;
  return bytes == 0 ||
         (!__builtin_add_overflow(ledger::used_bytes(*session.usage, device), share_residual_now(device), &used) &&
          used <= limit);
}

}  // namespace headgate::limiter
