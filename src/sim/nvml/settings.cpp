// Modes of a server card, and NVML's setters, which check the range and the caller and change what the getters return.
// They record each call, refused ones too, in the node for `headgate sim truth`.
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "sim/engine/clocks.hpp"
#include "sim/nvml/library.hpp"

namespace headgate::sim::nvml {
namespace {

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
nvmlReturn_t set(DeviceCall call, std::uint64_t value, std::uint64_t second, Apply&& apply) {
  return on_device(call, [&](const DeviceView& view) {
    const bool allowed = ::geteuid() == 0 || view.profile().open_setters != 0;
    const nvmlReturn_t done = !allowed ? NVML_ERROR_NO_PERMISSION : status_of(apply, view, view.settings());
    record(view, call.function, value, second, done);
    return done;
  });
}

// Resets a setting to its default, stored as zero.
template <typename Clear>
nvmlReturn_t reset(DeviceCall call, Clear&& clear) {
  return set(call, 0, 0, [&](const DeviceView&, NvmlDevice& on) { clear(on); });
}

nvmlReturn_t set_flag(std::uint32_t& flag, unsigned mode, bool inverted) {
  if (mode > 1) return NVML_ERROR_INVALID_ARGUMENT;
  flag = (mode != 0) != inverted ? 1 : 0;
  return NVML_SUCCESS;
}

// `least`, `most`: the locked range; `idle`, `top`: the card's.
nvmlReturn_t lock_clocks(DeviceCall call, unsigned from, unsigned to, std::uint32_t Profile::* idle,
                         std::uint32_t Profile::* top, std::uint32_t NvmlDevice::* least,
                         std::uint32_t NvmlDevice::* most) {
  return set(call, from, to, [&](const DeviceView& view, NvmlDevice& on) {
    const unsigned lowest = view.profile().*idle, highest = view.profile().*top;
    if (from > to || to < lowest || from > highest) return NVML_ERROR_INVALID_ARGUMENT;
    on.*least = std::max(from, lowest);
    on.*most = std::min(to, highest);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t set_power(DeviceCall call, unsigned limit_mw) {
  return set(call, limit_mw, 0, [&](const DeviceView& view, NvmlDevice& on) {
    if (limit_mw < view.profile().power_min_mw || limit_mw > view.profile().power_max_mw)
      return NVML_ERROR_INVALID_ARGUMENT;
    settle_energy(view.profile(), on, view.power_limit_mw(), view.device().busy_ns, view.state().now_ns);
    on.power_limit_mw = limit_mw;
    return NVML_SUCCESS;
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

nvmlEnableState_t state_of(bool on) { return on ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED; }

}  // namespace

bool is_hopper_or_newer(const Profile& profile) { return profile.capability_major >= 9; }

nvmlReturn_t set_policy(nvmlDevice_t device, const NvmlExportedPolicy* wanted) {
  if (wanted == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return set({device, {}, "nvmlInternalGetExportTable"}, wanted->policy, wanted->value,
             [&](const DeviceView&, NvmlDevice& on) {
               if (wanted->policy != 0 || wanted->value > kLongTimeSlice) return NVML_ERROR_NOT_SUPPORTED;
               on.time_slice = wanted->value;
               return NVML_SUCCESS;
             });
}

extern "C" {

SIM_GETTER(nvmlDeviceGetAccountingMode, nvmlEnableState_t, state_of(view.settings().accounting_on != 0))
SIM_GETTER(nvmlDeviceGetComputeMode, nvmlComputeMode_t, view.settings().compute_mode)
SIM_GETTER(nvmlDeviceGetDisplayActive, nvmlEnableState_t, NVML_FEATURE_DISABLED)
SIM_GETTER(nvmlDeviceGetDisplayMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
SIM_GETTER(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, state_of(view.settings().persistence_off == 0))
SIM_GETTER(nvmlDeviceGetPowerManagementMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
SIM_GETTER(nvmlDeviceGetVirtualizationMode, nvmlGpuVirtualizationMode_t, NVML_GPU_VIRTUALIZATION_MODE_NONE)

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t* current, nvmlEnableState_t* pending) {
  return on_device({device, {current, pending}}, [&](const DeviceView& view) {
    *current = state_of(view.settings().ecc_off_now == 0);  // the pending mode needs `headgate sim reset`
    *pending = state_of(view.settings().ecc_off == 0);
  });
}

SIM_GETTER(nvmlDeviceGetDefaultEccMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)

nvmlReturn_t nvmlDeviceGetAPIRestriction(nvmlDevice_t device, nvmlRestrictedAPI_t apiType,
                                         nvmlEnableState_t* isRestricted) {
  return on_device(device, [&](const DeviceView&) {
    if (isRestricted == nullptr || apiType > 1) return NVML_ERROR_INVALID_ARGUMENT;
    if (apiType == 1) return NVML_ERROR_NOT_SUPPORTED;  // automatic boost, which is fixed on these cards
    *isRestricted = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
  });
}

// The server's fans cool it; it has none.
nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned* speed) {
  return on_device(device, [&](const DeviceView&) {
    return speed == nullptr ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
  });
}

SIM_GETTER(nvmlDeviceGetNumFans, unsigned, 0U)

nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode) {
  return set(device, mode, 0,
             [&](const DeviceView&, NvmlDevice& on) { return set_flag(on.persistence_off, mode, true); });
}

// In mode 3 the simulated driver lets no second process create a context, in mode 2 none at all.
nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, nvmlComputeMode_t mode) {
  return set(device, mode, 0, [&](const DeviceView&, NvmlDevice& on) {
    if (mode > 3) return NVML_ERROR_INVALID_ARGUMENT;
    if (mode == 1) return NVML_ERROR_NOT_SUPPORTED;  // exclusive thread mode was removed in CUDA 8
    on.compute_mode = mode;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned limit) { return set_power(device, limit); }

nvmlReturn_t nvmlDeviceSetPowerManagementLimit_v2(nvmlDevice_t device, nvmlPowerValue_v2_t* powerValue) {
  if (powerValue == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (powerValue->version != (sizeof *powerValue | 2U << 24)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (powerValue->powerScope != 0) return NVML_ERROR_NOT_SUPPORTED;
  return set_power(device, powerValue->powerValueMw);
}

nvmlReturn_t nvmlDeviceSetGpuLockedClocks(nvmlDevice_t device, unsigned minGpuClockMHz, unsigned maxGpuClockMHz) {
  return lock_clocks(device, minGpuClockMHz, maxGpuClockMHz, &Profile::sm_clock_idle_mhz, &Profile::sm_clock_max_mhz,
                     &NvmlDevice::sm_min_mhz, &NvmlDevice::sm_max_mhz);
}
nvmlReturn_t nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device) {
  return reset(device, [](NvmlDevice& on) { on.sm_min_mhz = on.sm_max_mhz = 0; });
}
nvmlReturn_t nvmlDeviceSetMemoryLockedClocks(nvmlDevice_t device, unsigned minMemClockMHz, unsigned maxMemClockMHz) {
  return lock_clocks(device, minMemClockMHz, maxMemClockMHz, &Profile::memory_clock_idle_mhz,
                     &Profile::memory_clock_max_mhz, &NvmlDevice::memory_min_mhz, &NvmlDevice::memory_max_mhz);
}
nvmlReturn_t nvmlDeviceResetMemoryLockedClocks(nvmlDevice_t device) {
  return reset(device, [](NvmlDevice& on) { on.memory_min_mhz = on.memory_max_mhz = 0; });
}

nvmlReturn_t nvmlDeviceSetApplicationsClocks(nvmlDevice_t device, unsigned memClockMHz, unsigned graphicsClockMHz) {
  return set(device, memClockMHz, graphicsClockMHz, [&](const DeviceView& view, NvmlDevice& on) {
    const Profile& profile = view.profile();
    const bool memory = memClockMHz == profile.memory_clock_max_mhz || memClockMHz == profile.memory_clock_idle_mhz;
    if (!memory || graphicsClockMHz < profile.sm_clock_idle_mhz || graphicsClockMHz > profile.sm_clock_max_mhz)
      return NVML_ERROR_INVALID_ARGUMENT;
    on.application_memory_mhz = memClockMHz;
    on.application_sm_mhz = graphicsClockMHz;
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceResetApplicationsClocks(nvmlDevice_t device) {
  return reset(device, [](NvmlDevice& on) { on.application_memory_mhz = on.application_sm_mhz = 0; });
}

nvmlReturn_t nvmlDeviceSetEccMode(nvmlDevice_t device, nvmlEnableState_t ecc) {
  return set(device, ecc, 0, [&](const DeviceView&, NvmlDevice& on) { return set_flag(on.ecc_off, ecc, true); });
}
nvmlReturn_t nvmlDeviceClearEccErrorCounts(nvmlDevice_t device, nvmlEccCounterType_t counterType) {
  return set(device, counterType, 0, [&](const DeviceView&, NvmlDevice&) {
    return counterType > 1 ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceSetAccountingMode(nvmlDevice_t device, nvmlEnableState_t mode) {
  return set(device, mode, 0, [&](const DeviceView& view, NvmlDevice& on) {
    if (mode == NVML_FEATURE_ENABLED && on.accounting_on == 0) on.accounting_since_ns = view.state().now_ns;
    return set_flag(on.accounting_on, mode, false);
  });
}
nvmlReturn_t nvmlDeviceClearAccountingPids(nvmlDevice_t device) {
  return set(device, 0, 0,
             [](const DeviceView& view, NvmlDevice& on) { on.accounting_since_ns = view.state().now_ns; });
}

// A GPU in MIG mode has no such limits. That soft is at most hard is our guess: NVIDIA's reference does not say it.
nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, nvmlSetMemoryLimits_v1_t* limits) {
  if (limits == nullptr || limits->nameSpace == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return set(device, limits->softLimit, limits->hardLimit, [&](const DeviceView& view, NvmlDevice&) {
    if (view.profile().mig_count != 0) return NVML_ERROR_NOT_SUPPORTED;
    const std::uint64_t cgroup = cgroup_at(limits->nameSpace);
    if (cgroup == 0) return NVML_ERROR_NOT_FOUND;
    if (limits->softLimit > limits->hardLimit) return NVML_ERROR_INVALID_ARGUMENT;
    MemoryFence& fence = place_of(view.mutable_state(), view.index(), cgroup);
    fence.soft_bytes = limits->softLimit;
    fence.hard_bytes = limits->hardLimit;
    const bool none = limits->softLimit == 0 && limits->hardLimit == NVML_DEVICE_MEMORY_LIMIT_MAX;
    fence.cgroup = none ? 0 : cgroup;
    return NVML_SUCCESS;
  });
}

// Of a cgroup without a limit: that of the nearest one around it, by the path.
nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t* limits) {
  return on_device(device, [&](const DeviceView& view) {
    if (limits == nullptr || limits->nameSpace == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (view.profile().mig_count != 0) return NVML_ERROR_NOT_SUPPORTED;
    std::string path = limits->nameSpace;
    std::uint64_t cgroups[kMaxCgroups] = {};
    for (std::uint64_t& cgroup : cgroups) {
      if ((cgroup = cgroup_at(path.c_str())) == 0) break;
      path.resize(std::min(path.find_last_of('/'), path.size()));
    }
    if (cgroups[0] == 0) return NVML_ERROR_NOT_FOUND;
    const Engine engine(view.mutable_state());
    const MemoryFence* const fence = engine.fence_of(cgroups, view.index());
    limits->softLimit = fence == nullptr ? 0 : fence->soft_bytes;
    limits->hardLimit = fence == nullptr ? NVML_DEVICE_MEMORY_LIMIT_MAX : fence->hard_bytes;
    limits->currentUsed = fence == nullptr ? 0 : engine.fenced_bytes(*fence, view.index());
    return NVML_SUCCESS;
  });
}

}  // extern "C"
}  // namespace headgate::sim::nvml
