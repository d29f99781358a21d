// NVML's setters check the range and the caller and change what the getters return. They record each call, refused ones
// too, in the node for `headgate sim truth`.
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "sim/engine/clocks.hpp"
#include "sim/nvml/library.hpp"
#include "sim/nvml/wide.hpp"

namespace headgate::sim::nvml {
namespace {

using abi::nvmlDevice_t;
using abi::nvmlReturn_t;

void record(const DeviceView& view, const char* function, std::uint64_t value, std::uint64_t second,
            nvmlReturn_t answer) {
  State& state = view.mutable_state();
  NvmlSetting& entry = state.nvml_settings[state.nvml_setting_count % kMaxNvmlSettings];
  entry = {.at_ns = state.now_ns,
           .pid = static_cast<std::int32_t>(::getpid()),
           .uid = ::geteuid(),
           .device = view.index(),
           .answer = answer,
           .value = value,
           .second_value = second,
           .function = {}};
  std::strncpy(entry.function, function, sizeof entry.function - 1);
  ++state.nvml_setting_count;
}

// Calls `apply` with the device's settings. Only root may call it, unless the profile opens setters to all users.
template <typename Apply>
nvmlReturn_t set(const char* function, nvmlDevice_t device, std::uint64_t value, std::uint64_t second, Apply&& apply) {
  return on_device(function, device, [&](const DeviceView& view) {
    const bool allowed = ::geteuid() == 0 || view.profile().open_setters != 0;
    const nvmlReturn_t done =
        !allowed ? abi::NVML_ERROR_NO_PERMISSION : static_cast<nvmlReturn_t>(apply(view, view.settings()));
    record(view, function, value, second, done);
    return done;
  });
}

// Resets a setting to its default, stored as zero.
template <typename Clear>
nvmlReturn_t reset(const char* function, nvmlDevice_t device, Clear&& clear) {
  return set(function, device, 0, 0, [&](const DeviceView&, NvmlDevice& on) {
    clear(on);
    return abi::NVML_SUCCESS;
  });
}

nvmlReturn_t set_flag(std::uint32_t& flag, unsigned mode, bool inverted) {
  if (mode > 1) return abi::NVML_ERROR_INVALID_ARGUMENT;
  flag = (mode != 0) != inverted ? 1 : 0;
  return abi::NVML_SUCCESS;
}

struct ClockRange {
  unsigned lowest, highest;
};

nvmlReturn_t lock_clocks(const char* function, nvmlDevice_t device, unsigned from, unsigned to,
                         ClockRange (*range_of)(const Profile&), std::uint32_t NvmlDevice::* least,
                         std::uint32_t NvmlDevice::* most) {
  return set(function, device, from, to, [&](const DeviceView& view, NvmlDevice& on) {
    const ClockRange range = range_of(view.profile());
    if (from > to || to < range.lowest || from > range.highest) return abi::NVML_ERROR_INVALID_ARGUMENT;
    on.*least = std::max(from, range.lowest);
    on.*most = std::min(to, range.highest);
    return abi::NVML_SUCCESS;
  });
}

nvmlReturn_t set_power(const char* function, nvmlDevice_t device, unsigned limit_mw) {
  return set(function, device, limit_mw, 0, [&](const DeviceView& view, NvmlDevice& on) {
    if (limit_mw < view.profile().power_min_mw || limit_mw > view.profile().power_max_mw)
      return abi::NVML_ERROR_INVALID_ARGUMENT;
    settle_energy(view.profile(), on, view.power_limit_mw(), view.device().busy_ns, view.state().now_ns);
    on.power_limit_mw = limit_mw;
    return abi::NVML_SUCCESS;
  });
}

// Returns the inode of a version 2 cgroup's directory; 0: it is none.
std::uint64_t cgroup_at(const char* path) {
  constexpr long kCgroup2Magic = 0x63677270;  // linux/magic.h: CGROUP2_SUPER_MAGIC
  struct stat facts{};
  struct statfs system{};
  if (::statfs(path, &system) != 0 || system.f_type != kCgroup2Magic || ::stat(path, &facts) != 0) return 0;
  return S_ISDIR(facts.st_mode) ? facts.st_ino : 0;
}

// The places of cgroups that were removed are never looked for; the oldest place is taken again if all are used.
MemoryFence& place_of(State& state, std::uint32_t device, std::uint64_t cgroup) {
  auto& fences = state.memory_fences[device];
  for (const std::uint64_t wanted : {cgroup, std::uint64_t{0}})
    for (MemoryFence& fence : fences)
      if (fence.cgroup == wanted) return fence;
  return fences[state.nvml_setting_count % kMaxMemoryFences];
}

}  // namespace

nvmlReturn_t set_policy(nvmlDevice_t device, const abi::NvmlExportedPolicy* wanted) {
  if (wanted == nullptr) return abi::NVML_ERROR_INVALID_ARGUMENT;
  return set("nvmlInternalGetExportTable", device, wanted->policy, wanted->value,
             [&](const DeviceView&, NvmlDevice& on) {
               if (wanted->policy != 0 || wanted->value > kLongTimeSlice) return abi::NVML_ERROR_NOT_SUPPORTED;
               on.time_slice = wanted->value;
               return abi::NVML_SUCCESS;
             });
}

}  // namespace headgate::sim::nvml

namespace headgate::abi {
namespace nvml = sim::nvml;
using nvml::DeviceView;
using sim::NvmlDevice;

extern "C" {

nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode) {
  return nvml::set("nvmlDeviceSetPersistenceMode", device, mode, 0,
                   [&](const DeviceView&, NvmlDevice& on) { return nvml::set_flag(on.persistence_off, mode, true); });
}

// In mode 3 the simulated driver lets no second process create a context, in mode 2 none at all.
nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, nvmlComputeMode_t mode) {
  return nvml::set("nvmlDeviceSetComputeMode", device, mode, 0, [&](const DeviceView&, NvmlDevice& on) {
    if (mode > 3) return NVML_ERROR_INVALID_ARGUMENT;
    if (mode == 1) return NVML_ERROR_NOT_SUPPORTED;  // exclusive thread mode was removed in CUDA 8
    on.compute_mode = mode;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned limit) {
  return nvml::set_power("nvmlDeviceSetPowerManagementLimit", device, limit);
}

nvmlReturn_t nvmlDeviceSetPowerManagementLimit_v2(nvmlDevice_t device, nvmlPowerValue_v2_t* powerValue) {
  if (powerValue == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (powerValue->version != (sizeof *powerValue | 2U << 24)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (powerValue->powerScope != 0) return NVML_ERROR_NOT_SUPPORTED;
  return nvml::set_power("nvmlDeviceSetPowerManagementLimit_v2", device, powerValue->powerValueMw);
}

nvmlReturn_t nvmlDeviceSetGpuLockedClocks(nvmlDevice_t device, unsigned minGpuClockMHz, unsigned maxGpuClockMHz) {
  return nvml::lock_clocks(
      "nvmlDeviceSetGpuLockedClocks", device, minGpuClockMHz, maxGpuClockMHz,
      [](const sim::Profile& p) { return nvml::ClockRange{p.sm_clock_idle_mhz, p.sm_clock_max_mhz}; },
      &NvmlDevice::sm_min_mhz, &NvmlDevice::sm_max_mhz);
}
nvmlReturn_t nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device) {
  return nvml::reset("nvmlDeviceResetGpuLockedClocks", device,
                     [](NvmlDevice& on) { on.sm_min_mhz = on.sm_max_mhz = 0; });
}
nvmlReturn_t nvmlDeviceSetMemoryLockedClocks(nvmlDevice_t device, unsigned minMemClockMHz, unsigned maxMemClockMHz) {
  return nvml::lock_clocks(
      "nvmlDeviceSetMemoryLockedClocks", device, minMemClockMHz, maxMemClockMHz,
      [](const sim::Profile& p) { return nvml::ClockRange{p.memory_clock_idle_mhz, p.memory_clock_max_mhz}; },
      &NvmlDevice::memory_min_mhz, &NvmlDevice::memory_max_mhz);
}
nvmlReturn_t nvmlDeviceResetMemoryLockedClocks(nvmlDevice_t device) {
  return nvml::reset("nvmlDeviceResetMemoryLockedClocks", device,
                     [](NvmlDevice& on) { on.memory_min_mhz = on.memory_max_mhz = 0; });
}

nvmlReturn_t nvmlDeviceSetApplicationsClocks(nvmlDevice_t device, unsigned memClockMHz, unsigned graphicsClockMHz) {
  return nvml::set(
      "nvmlDeviceSetApplicationsClocks", device, memClockMHz, graphicsClockMHz,
      [&](const DeviceView& view, NvmlDevice& on) {
        const sim::Profile& profile = view.profile();
        const bool memory = memClockMHz == profile.memory_clock_max_mhz || memClockMHz == profile.memory_clock_idle_mhz;
        if (!memory || graphicsClockMHz < profile.sm_clock_idle_mhz || graphicsClockMHz > profile.sm_clock_max_mhz)
          return NVML_ERROR_INVALID_ARGUMENT;
        on.application_memory_mhz = memClockMHz;
        on.application_sm_mhz = graphicsClockMHz;
        return NVML_SUCCESS;
      });
}
nvmlReturn_t nvmlDeviceResetApplicationsClocks(nvmlDevice_t device) {
  return nvml::reset("nvmlDeviceResetApplicationsClocks", device,
                     [](NvmlDevice& on) { on.application_memory_mhz = on.application_sm_mhz = 0; });
}

nvmlReturn_t nvmlDeviceSetEccMode(nvmlDevice_t device, nvmlEnableState_t ecc) {
  return nvml::set("nvmlDeviceSetEccMode", device, ecc, 0,
                   [&](const DeviceView&, NvmlDevice& on) { return nvml::set_flag(on.ecc_off, ecc, true); });
}
nvmlReturn_t nvmlDeviceClearEccErrorCounts(nvmlDevice_t device, nvmlEccCounterType_t counterType) {
  return nvml::set("nvmlDeviceClearEccErrorCounts", device, counterType, 0, [&](const DeviceView&, NvmlDevice&) {
    return counterType > 1 ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceSetAccountingMode(nvmlDevice_t device, nvmlEnableState_t mode) {
  return nvml::set("nvmlDeviceSetAccountingMode", device, mode, 0, [&](const DeviceView& view, NvmlDevice& on) {
    if (mode == NVML_FEATURE_ENABLED && on.accounting_on == 0) on.accounting_since_ns = view.state().now_ns;
    return nvml::set_flag(on.accounting_on, mode, false);
  });
}
nvmlReturn_t nvmlDeviceClearAccountingPids(nvmlDevice_t device) {
  return nvml::set("nvmlDeviceClearAccountingPids", device, 0, 0, [](const DeviceView& view, NvmlDevice& on) {
    on.accounting_since_ns = view.state().now_ns;
    return NVML_SUCCESS;
  });
}

// A GPU in MIG mode has no such limits. That soft is at most hard is our guess: NVIDIA's reference does not say it.
nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, nvmlSetMemoryLimits_v1_t* limits) {
  if (limits == nullptr || limits->nameSpace == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return nvml::set("nvmlDeviceSetMemoryLimits_v1", device, limits->softLimit, limits->hardLimit,
                   [&](const DeviceView& view, NvmlDevice&) {
                     if (view.profile().mig_count != 0) return NVML_ERROR_NOT_SUPPORTED;
                     const std::uint64_t cgroup = nvml::cgroup_at(limits->nameSpace);
                     if (cgroup == 0) return NVML_ERROR_NOT_FOUND;
                     if (limits->softLimit > limits->hardLimit) return NVML_ERROR_INVALID_ARGUMENT;
                     sim::MemoryFence& fence = nvml::place_of(view.mutable_state(), view.index(), cgroup);
                     fence.soft_bytes = limits->softLimit;
                     fence.hard_bytes = limits->hardLimit;
                     const bool none = limits->softLimit == 0 && limits->hardLimit == NVML_DEVICE_MEMORY_LIMIT_MAX;
                     fence.cgroup = none ? 0 : cgroup;
                     return NVML_SUCCESS;
                   });
}

// Of a cgroup without a limit: that of the nearest one around it, by the path.
nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t* limits) {
  return nvml::on_device("nvmlDeviceGetMemoryLimits_v1", device, [&](const DeviceView& view) {
    if (limits == nullptr || limits->nameSpace == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (view.profile().mig_count != 0) return NVML_ERROR_NOT_SUPPORTED;
    std::string path = limits->nameSpace;
    std::uint64_t cgroups[sim::kMaxCgroups] = {};
    for (std::uint64_t& cgroup : cgroups) {
      if ((cgroup = nvml::cgroup_at(path.c_str())) == 0) break;
      path.resize(std::min(path.find_last_of('/'), path.size()));
    }
    if (cgroups[0] == 0) return NVML_ERROR_NOT_FOUND;
    const sim::Engine engine(view.mutable_state());
    const sim::MemoryFence* const fence = engine.fence_of(cgroups, view.index());
    limits->softLimit = fence == nullptr ? 0 : fence->soft_bytes;
    limits->hardLimit = fence == nullptr ? NVML_DEVICE_MEMORY_LIMIT_MAX : fence->hard_bytes;
    limits->currentUsed = fence == nullptr ? 0 : engine.fenced_bytes(*fence, view.index());
    return NVML_SUCCESS;
  });
}

}  // extern "C"
}  // namespace headgate::abi
