#include "nvml/accounting.hpp"

#include <algorithm>

namespace headgate::nvml {
namespace {

// NVML 11.8's nvml.h: nvmlAccountingStats_t.
struct Stats {
  unsigned busy_percent, memory_busy_percent;
  unsigned long long peak_bytes, lived_ms, started_us;
  unsigned is_running, reserved[5];
};
static_assert(sizeof(Stats) == 56);

}  // namespace

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
    Stats stats{};
    if (!call(library->nvmlDeviceGetAccountingStats, device, pid, &stats) || stats.is_running != 0) continue;
    ended.insert(pid);
    if (first_look) continue;
    found.push_back({.uuid = uuid,
                     .pid = pid,
                     .peak_bytes = stats.peak_bytes == ~0ull ? 0 : stats.peak_bytes,
                     .busy_ratio = std::min(stats.busy_percent, 100u) / 100.0,
                     .lived_ms = stats.lived_ms});
  }
  entry->second = std::move(ended);
  return found;
}

}  // namespace headgate::nvml
