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

template <typename Mode>
nvmlReturn_t always(const char* function, nvmlDevice_t device, Mode* out, Mode mode) {
  return nvml::value_of(function, device, out, [mode](const DeviceView&) { return mode; });
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return nvml::value_of("nvmlDeviceGetAccountingMode", device, mode,
                        [](const DeviceView& view) { return state_of(view.settings().accounting_on != 0); });
}
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t* mode) {
  return nvml::value_of("nvmlDeviceGetComputeMode", device, mode,
                        [](const DeviceView& view) { return view.settings().compute_mode; });
}
nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t* isActive) {
  return always("nvmlDeviceGetDisplayActive", device, isActive, NVML_FEATURE_DISABLED);
}
nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t* display) {
  return always("nvmlDeviceGetDisplayMode", device, display, NVML_FEATURE_DISABLED);
}
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return nvml::value_of("nvmlDeviceGetPersistenceMode", device, mode,
                        [](const DeviceView& view) { return state_of(view.settings().persistence_off == 0); });
}
nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return always("nvmlDeviceGetPowerManagementMode", device, mode, NVML_FEATURE_ENABLED);
}

nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, nvmlGpuVirtualizationMode_t* pVirtualMode) {
  return always("nvmlDeviceGetVirtualizationMode", device, pVirtualMode, NVML_GPU_VIRTUALIZATION_MODE_NONE);
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t* current, nvmlEnableState_t* pending) {
  return nvml::on_device("nvmlDeviceGetEccMode", device, [&](const DeviceView& view) {
    if (current == nullptr || pending == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *current = state_of(view.settings().ecc_off_now == 0);  // the pending mode needs `headgate sim reset`
    *pending = state_of(view.settings().ecc_off == 0);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetDefaultEccMode(nvmlDevice_t device, nvmlEnableState_t* defaultMode) {
  return always("nvmlDeviceGetDefaultEccMode", device, defaultMode, NVML_FEATURE_ENABLED);
}

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

nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned* numFans) {
  return always("nvmlDeviceGetNumFans", device, numFans, 0U);
}

}  // extern "C"
}  // namespace headgate::abi
