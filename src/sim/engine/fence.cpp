// Limits of a device's memory by cgroup, as driver r615 has them.
#include <algorithm>

#include "sim/engine.hpp"

namespace headgate::sim {

const MemoryFence* Engine::fence_of(std::span<const std::uint64_t, kMaxCgroups> cgroups, std::uint32_t device) const {
  for (const std::uint64_t cgroup : cgroups) {
    if (cgroup == 0) break;
    const auto found = std::ranges::find(state_->memory_fences[device], cgroup, &MemoryFence::cgroup);
    if (found != std::end(state_->memory_fences[device])) return &*found;
  }
  return nullptr;
}

std::uint64_t Engine::fenced_bytes(const MemoryFence& fence, std::uint32_t device) const {
  std::uint64_t bytes = 0;
  for (const Account& account : state_->accounts) {
    if (account.used != 1 || account.device != device) continue;
    if (fence_of(state_->processes[account.process].cgroups, device) == &fence)
      bytes += account.bytes + account.slack_bytes + account.context_bytes;
  }
  return bytes;
}

std::uint64_t Engine::free_bytes_for(const Account& account) const {
  const std::uint64_t free = free_bytes(account.device);
  const MemoryFence* const fence = fence_of(state_->processes[account.process].cgroups, account.device);
  if (fence == nullptr) return free;
  const std::uint64_t used = fenced_bytes(*fence, account.device);
  return std::min(free, fence->hard_bytes - std::min(fence->hard_bytes, used));
}

}  // namespace headgate::sim
