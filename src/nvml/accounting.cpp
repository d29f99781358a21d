#include "nvml/accounting.hpp"

#include <algorithm>

namespace headgate::nvml {
std::vector<Ended> AccountingWatch::look(const Library& library, abi::nvmlDevice_t device, const std::string& uuid,
                                         const std::set<std::uint32_t>& running) {
  std::vector<Ended> found;
  abi::nvmlEnableState_t mode{};
  if (!call(library->nvmlDeviceGetAccountingMode, device, &mode) || mode != abi::NVML_FEATURE_ENABLED) {
    known_.erase(uuid);
    return found;
  }
  std::vector<unsigned> pids(4096);  // the largest accounting buffer of current GPUs has 4000
  unsigned count = static_cast<unsigned>(pids.size());
  if (!call(library->nvmlDeviceGetAccountingPids, device, &count, pids.data())) return found;
  pids.resize(std::min<std::size_t>(count, pids.size()));
  const auto [entry, first_look] = known_.try_emplace(uuid);
  std::set<std::uint32_t> ended;
  for (const unsigned pid : pids) {
    if (running.contains(pid)) continue;
    if (entry->second.contains(pid)) {
      ended.insert(pid);
      continue;
    }
    abi::nvmlAccountingStats_t stats{};
    if (!call(library->nvmlDeviceGetAccountingStats, device, pid, &stats) || stats.isRunning != 0) continue;
    ended.insert(pid);
    if (first_look) continue;
    found.push_back({.uuid = uuid,
                     .pid = pid,
                     .peak_bytes = stats.maxMemoryUsage == ~0ull ? 0 : stats.maxMemoryUsage,
                     .busy_ratio = std::min(stats.gpuUtilization, 100u) / 100.0,
                     .lived_ms = stats.time});
  }
  entry->second = std::move(ended);
  return found;
}

}  // namespace headgate::nvml
