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
  return granted_bytes(place.device_index) != ledger::kNoMemoryLimit;
}

std::size_t free_on_card() {
  std::size_t free = 0, total = 0;
  return forward(driver.cuMemGetInfo_v2, &free, &total) == abi::CUDA_SUCCESS ? free : SIZE_MAX;
}

std::uint64_t measured_growth(std::uint32_t device, std::uint64_t before, std::uint64_t less_free,
                              std::uint64_t reserved) {
  const bare::KeepErrno keep_errno;
  const bool measured = refresh_residual(device);
  const std::uint64_t bytes = bare::saturating_sub(own_residual(device), before);
  // A figure of 0 says nothing where NVML never listed this process, as in a container with other pids.
  if ((measured && (bytes != 0 || nvml_lists_us())) || less_free == kUntold) return residual_rose(device, bytes), bytes;
  const std::uint64_t unseen = bare::saturating_sub(less_free, reserved);
  residual_rises(device, unseen);
  return unseen;
}

bool growth_fits(std::uint32_t device, std::uint64_t bytes) {
  return bytes == 0 || fits(bytes_in_use_now(device), 0, granted_bytes(device));
}

}  // namespace headgate::limiter
