// Process accounting: what each process used in its life, kept after its death while the node lists it.
#include <vector>

#include "sim/nvml/library.hpp"

namespace headgate::sim::nvml {
namespace {

// Returns true for processes that were alive after accounting was last switched on or cleared.
bool counts(const DeviceView& view, const Account& account) {
  return account.used != 0 && account.device == view.index() &&
         (account.used == 1 || account.death_ns >= view.settings().accounting_since_ns);
}

nvmlAccountingStats_t stats_of(const DeviceView& view, const Account& account) {
  const bool running = account.used == 1;
  const std::uint64_t now_ns = view.state().now_ns;
  const std::uint64_t life_ns = std::max<std::uint64_t>((running ? now_ns : account.death_ns) - account.birth_ns, 1);
  nvmlAccountingStats_t stats{};
  stats.gpuUtilization = static_cast<unsigned>(std::min<std::uint64_t>(account.held_ns * 100 / life_ns, 100));
  stats.maxMemoryUsage = account.peak_bytes + account.context_bytes;
  stats.time = running ? 0 : life_ns / 1'000'000;
  stats.startTime = realtime_us() - (now_ns - account.birth_ns) / 1000;
  stats.isRunning = running ? 1 : 0;
  return stats;
}

template <typename Body>
nvmlReturn_t while_on(DeviceCall call, Body&& body) {
  return on_device(call, [&](const DeviceView& view) {
    if (view.settings().accounting_on == 0) return NVML_ERROR_NOT_SUPPORTED;
    return body(view);
  });
}

}  // namespace

extern "C" {

SIM_GETTER(nvmlDeviceGetAccountingBufferSize, unsigned, kMaxAccounts)

nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned* count, unsigned* pids) {
  return while_on(device, [&](const DeviceView& view) {
    std::vector<unsigned> listed;
    for (const Account& account : view.state().accounts) {
      if (counts(view, account)) listed.push_back(shown_pid(account));
    }
    return give_list(listed, count, pids);
  });
}

// If several processes have this pid, returns the youngest.
nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned pid, nvmlAccountingStats_t* stats) {
  return while_on(device, [&](const DeviceView& view) {
    if (stats == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    const Account* found = nullptr;
    for (const Account& account : view.state().accounts) {
      if (counts(view, account) && shown_pid(account) == pid &&
          (found == nullptr || account.birth_ns > found->birth_ns))
        found = &account;
    }
    if (found == nullptr) return NVML_ERROR_NOT_FOUND;
    *stats = stats_of(view, *found);
    return NVML_SUCCESS;
  });
}

}  // extern "C"
}  // namespace headgate::sim::nvml
