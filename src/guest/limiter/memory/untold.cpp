#include "guest/limiter/memory/untold.hpp"

#include <atomic>

#include "guest/bare/keep_errno.hpp"
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

Growth::Growth(std::uint32_t device_index) : device_index_(device_index), before_(own_residual(device_index)) {}

void Growth::measure(std::uint64_t less_free) {
  const bare::KeepErrno keep_errno;
  const bool measured = refresh_residual(device_index_);
  const std::uint64_t now = own_residual(device_index_);
  bytes_ = now > before_ ? now - before_ : 0;
  if (measured || less_free == kUntold) {
    residual_rose(device_index_, bytes_);
    return;
  }
  bytes_ = less_free;
  residual_rises(device_index_, bytes_);
}

bool Growth::fits() const {
  if (bytes_ == 0) return true;
  const std::uint64_t limit = session.policy->devices[device_index_].memory_limit_bytes.load(std::memory_order_relaxed);
  std::uint64_t used = 0;
  return !__builtin_add_overflow(ledger::used_bytes(*session.usage, device_index_), share_residual_now(device_index_),
                                 &used) &&
         used <= limit;
}

void Growth::take_back() { residual_falls(device_index_, bytes_); }

}  // namespace headgate::limiter
