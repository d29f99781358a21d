// Modes that nobody can change on a simulated GPU, as a server's card has them.
#include "sim/nvml/library.hpp"

namespace headgate::abi {
namespace nvml = sim::nvml;
using nvml::DeviceView;

namespace {

// Current and pending, which never differ here.
template <typename Mode>
nvmlReturn_t both(const char* function, nvmlDevice_t device, Mode* current, Mode* pending, Mode mode) {
  return nvml::on_device(function, device, [&](const DeviceView&) {
    if (current == nullptr || pending == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *current = *pending = mode;
    return NVML_SUCCESS;
  });
}

template <typename Mode>
nvmlReturn_t always(const char* function, nvmlDevice_t device, Mode* out, Mode mode) {
  return nvml::value_of(function, device, out, [mode](const DeviceView&) { return mode; });
}

// A100 (8.0) and Hopper have MIG; a card without it answers NOT_SUPPORTED.
bool has_mig(const sim::Profile& profile) {
  return profile.capability_major >= 9 || (profile.capability_major == 8 && profile.capability_minor == 0);
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return always("nvmlDeviceGetAccountingMode", device, mode, NVML_FEATURE_DISABLED);
}
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t* mode) {
  return always("nvmlDeviceGetComputeMode", device, mode, NVML_COMPUTEMODE_DEFAULT);
}
nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t* isActive) {
  return always("nvmlDeviceGetDisplayActive", device, isActive, NVML_FEATURE_DISABLED);
}
nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t* display) {
  return always("nvmlDeviceGetDisplayMode", device, display, NVML_FEATURE_DISABLED);
}
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return always("nvmlDeviceGetPersistenceMode", device, mode, NVML_FEATURE_ENABLED);
}
nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return always("nvmlDeviceGetPowerManagementMode", device, mode, NVML_FEATURE_ENABLED);
}

nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, nvmlGpuVirtualizationMode_t* pVirtualMode) {
  return always("nvmlDeviceGetVirtualizationMode", device, pVirtualMode, NVML_GPU_VIRTUALIZATION_MODE_NONE);
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t* current, nvmlEnableState_t* pending) {
  return both("nvmlDeviceGetEccMode", device, current, pending, NVML_FEATURE_ENABLED);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned* currentMode, unsigned* pendingMode) {
  return nvml::on_device("nvmlDeviceGetMigMode", device, [&](const DeviceView& view) {
    if (currentMode == nullptr || pendingMode == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (!has_mig(view.profile())) return NVML_ERROR_NOT_SUPPORTED;
    *currentMode = *pendingMode = 0;
    return NVML_SUCCESS;
  });
}

// Cooled by the server's fans, not its own.
nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned* speed) {
  return nvml::on_device("nvmlDeviceGetFanSpeed", device, [&](const DeviceView&) {
    return speed == nullptr ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
  });
}

}  // extern "C"
}  // namespace headgate::abi
