// Modes of a server card. settings.cpp has the setters.
#include "sim/nvml/library.hpp"
#include "sim/nvml/wide.hpp"

namespace headgate::sim::nvml {

bool is_hopper_or_newer(const Profile& profile) { return profile.capability_major >= 9; }

}  // namespace headgate::sim::nvml

namespace headgate::abi {
namespace nvml = sim::nvml;
using nvml::DeviceView;

namespace {

nvmlEnableState_t state_of(bool on) { return on ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED; }

}  // namespace

extern "C" {

SIM_GETTER(nvmlDeviceGetAccountingMode, nvmlEnableState_t, state_of(view.settings().accounting_on != 0))
SIM_GETTER(nvmlDeviceGetComputeMode, nvmlComputeMode_t, view.settings().compute_mode)
SIM_GETTER(nvmlDeviceGetDisplayActive, nvmlEnableState_t, NVML_FEATURE_DISABLED)
SIM_GETTER(nvmlDeviceGetDisplayMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
SIM_GETTER(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, state_of(view.settings().persistence_off == 0))
SIM_GETTER(nvmlDeviceGetPowerManagementMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)

SIM_GETTER(nvmlDeviceGetVirtualizationMode, nvmlGpuVirtualizationMode_t, NVML_GPU_VIRTUALIZATION_MODE_NONE)

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t* current, nvmlEnableState_t* pending) {
  return nvml::on_device("nvmlDeviceGetEccMode", device, [&](const DeviceView& view) {
    if (current == nullptr || pending == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *current = state_of(view.settings().ecc_off_now == 0);  // the pending mode needs `headgate sim reset`
    *pending = state_of(view.settings().ecc_off == 0);
    return NVML_SUCCESS;
  });
}

SIM_GETTER(nvmlDeviceGetDefaultEccMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)

nvmlReturn_t nvmlDeviceGetAPIRestriction(nvmlDevice_t device, nvmlRestrictedAPI_t apiType,
                                         nvmlEnableState_t* isRestricted) {
  return nvml::on_device("nvmlDeviceGetAPIRestriction", device, [&](const DeviceView&) {
    if (isRestricted == nullptr || apiType > 1) return NVML_ERROR_INVALID_ARGUMENT;
    if (apiType == 1) return NVML_ERROR_NOT_SUPPORTED;  // automatic boost, which is fixed on these cards
    *isRestricted = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
  });
}

// The server's fans cool it; it has none.
nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned* speed) {
  return nvml::on_device("nvmlDeviceGetFanSpeed", device, [&](const DeviceView&) {
    return speed == nullptr ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
  });
}

SIM_GETTER(nvmlDeviceGetNumFans, unsigned, 0U)

}  // extern "C"
}  // namespace headgate::abi
