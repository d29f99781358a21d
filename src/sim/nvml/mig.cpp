// MIG as the profile divides the GPUs: modes, and the slices' handles and attributes. Each slice is one GPU instance
// with one compute instance. The division is fixed for the node's life.
#include "sim/mig.hpp"

#include "sim/nvml/library.hpp"
#include "sim/nvml/wide.hpp"

namespace headgate::abi {
namespace nvml = sim::nvml;
using nvml::DeviceView;

namespace {

// Calls `body` with a DeviceView and the slice's number. For a whole GPU's handle returns `of_a_gpu`.
template <typename Body>
nvmlReturn_t on_slice(const char* function, nvmlDevice_t device, const void* out, nvmlReturn_t of_a_gpu, Body&& body) {
  return nvml::on_device_or_slice(function, device, [&](const DeviceView& view, std::optional<std::uint32_t> slice) {
    if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (!slice) return of_a_gpu;
    body(view, *slice);
    return NVML_SUCCESS;
  });
}

// Copy engines and decoders follow the slices as in NVIDIA's guide: one each per compute slice.
nvmlDeviceAttributes_t attributes_of(const sim::Profile& profile, sim::MigSlice slice) {
  nvmlDeviceAttributes_t told{};
  told.multiprocessorCount = sim::mig_sms(profile, slice);
  told.sharedCopyEngineCount = told.sharedDecoderCount = told.sharedJpegCount = slice.compute;
  told.gpuInstanceSliceCount = told.computeInstanceSliceCount = slice.compute;
  told.memorySizeMB = sim::mig_memory_bytes(profile, slice) >> 20;
  return told;
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned* currentMode, unsigned* pendingMode) {
  return nvml::on_device("nvmlDeviceGetMigMode", device, [&](const DeviceView& view) {
    if (currentMode == nullptr || pendingMode == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (!sim::has_mig(view.profile())) return NVML_ERROR_NOT_SUPPORTED;
    *currentMode = *pendingMode = view.profile().mig_count != 0 ? 1 : 0;
    return NVML_SUCCESS;
  });
}

SIM_GETTER(nvmlDeviceGetMaxMigDeviceCount, unsigned, sim::has_mig(view.profile()) ? sim::kMaxMigSlices : 0U)

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned* isMigDevice) {
  return nvml::on_device_or_slice("nvmlDeviceIsMigDeviceHandle", device,
                                  [&](const DeviceView&, std::optional<std::uint32_t> slice) {
                                    if (isMigDevice == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
                                    *isMigDevice = slice ? 1 : 0;
                                    return NVML_SUCCESS;
                                  });
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t* migDevice) {
  return nvml::on_device("nvmlDeviceGetMigDeviceHandleByIndex", device, [&](const DeviceView& view) {
    if (!sim::has_mig(view.profile())) return NVML_ERROR_NOT_SUPPORTED;
    if (migDevice == nullptr || index >= sim::kMaxMigSlices) return NVML_ERROR_INVALID_ARGUMENT;
    if (index >= view.profile().mig_count) return NVML_ERROR_NOT_FOUND;
    *migDevice = nvml::handle_of(nvml::SliceOfDevice{view.index(), index});
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice, nvmlDevice_t* device) {
  return on_slice("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", migDevice, device, NVML_ERROR_INVALID_ARGUMENT,
                  [&](const DeviceView& view, std::uint32_t) { *device = nvml::handle_of(view.index()); });
}

// GPU instance 0 is the whole GPU, so slices start at 1.
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned* id) {
  return on_slice("nvmlDeviceGetGpuInstanceId", device, id, NVML_ERROR_NOT_SUPPORTED,
                  [&](const DeviceView&, std::uint32_t slice) { *id = slice + 1; });
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned* id) {
  return on_slice("nvmlDeviceGetComputeInstanceId", device, id, NVML_ERROR_NOT_SUPPORTED,
                  [&](const DeviceView&, std::uint32_t) { *id = 0; });
}

nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_v1_t* attributes) {
  return on_slice("nvmlDeviceGetAttributes", device, attributes, NVML_ERROR_NOT_SUPPORTED,
                  [&](const DeviceView& view, std::uint32_t slice) {
                    const auto all = attributes_of(view.profile(), view.profile().mig[slice]);
                    *attributes = {.multiprocessorCount = all.multiprocessorCount,
                                   .sharedCopyEngineCount = all.sharedCopyEngineCount,
                                   .sharedDecoderCount = all.sharedDecoderCount,
                                   .sharedEncoderCount = all.sharedEncoderCount,
                                   .sharedJpegCount = all.sharedJpegCount,
                                   .sharedOfaCount = all.sharedOfaCount};
                  });
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t* attributes) {
  return on_slice("nvmlDeviceGetAttributes_v2", device, attributes, NVML_ERROR_NOT_SUPPORTED,
                  [&](const DeviceView& view, std::uint32_t slice) {
                    *attributes = attributes_of(view.profile(), view.profile().mig[slice]);
                  });
}

}  // extern "C"
}  // namespace headgate::abi
