// MIG as the profile divides the GPUs: modes, and the slices' handles and attributes. Each slice is one GPU instance
// with one compute instance. The division is fixed for the node's life.
#include "sim/mig.hpp"

#include "sim/nvml/library.hpp"

namespace headgate::sim::nvml {
namespace {

// Calls `body` with a DeviceView and the slice's number. For a whole GPU's handle returns `of_a_gpu`.
template <typename Body>
nvmlReturn_t on_slice(DeviceCall call, nvmlReturn_t of_a_gpu, Body&& body) {
  return on_device_or_slice(call, [&](const DeviceView& view, Slice slice) {
    if (!slice) return of_a_gpu;
    body(view, *slice);
    return NVML_SUCCESS;
  });
}

// Copy engines and decoders follow the slices as in NVIDIA's guide: one each per compute slice.
template <typename Attributes>
nvmlReturn_t attributes_of(DeviceCall call, Attributes* out) {
  return on_slice(call, NVML_ERROR_NOT_SUPPORTED, [&](const DeviceView& view, std::uint32_t index) {
    const MigSlice slice = view.profile().mig[index];
    *out = {};
    out->multiprocessorCount = mig_sms(view.profile(), slice);
    out->sharedCopyEngineCount = out->sharedDecoderCount = out->sharedJpegCount = slice.compute;
    if constexpr (std::is_same_v<Attributes, nvmlDeviceAttributes_t>) {
      out->gpuInstanceSliceCount = out->computeInstanceSliceCount = slice.compute;
      out->memorySizeMB = mig_memory_bytes(view.profile(), slice) >> 20;
    }
  });
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned* currentMode, unsigned* pendingMode) {
  return on_device({device, {currentMode, pendingMode}}, [&](const DeviceView& view) {
    if (!has_mig(view.profile())) return NVML_ERROR_NOT_SUPPORTED;
    *currentMode = *pendingMode = view.profile().mig_count != 0 ? 1 : 0;
    return NVML_SUCCESS;
  });
}

SIM_GETTER(nvmlDeviceGetMaxMigDeviceCount, unsigned, has_mig(view.profile()) ? kMaxMigSlices : 0U)

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned* isMigDevice) {
  return on_device_or_slice({device, {isMigDevice}},
                            [&](const DeviceView&, Slice slice) { *isMigDevice = slice ? 1 : 0; });
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t* migDevice) {
  return on_device(device, [&](const DeviceView& view) {
    if (!has_mig(view.profile())) return NVML_ERROR_NOT_SUPPORTED;
    if (migDevice == nullptr || index >= kMaxMigSlices) return NVML_ERROR_INVALID_ARGUMENT;
    if (index >= view.profile().mig_count) return NVML_ERROR_NOT_FOUND;
    *migDevice = handle_of(SliceOfDevice{view.index(), index});
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice, nvmlDevice_t* device) {
  return on_slice({migDevice, {device}}, NVML_ERROR_INVALID_ARGUMENT,
                  [&](const DeviceView& view, std::uint32_t) { *device = handle_of(view.index()); });
}

// GPU instance 0 is the whole GPU, so slices start at 1.
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned* id) {
  return on_slice({device, {id}}, NVML_ERROR_NOT_SUPPORTED,
                  [&](const DeviceView&, std::uint32_t slice) { *id = slice + 1; });
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned* id) {
  return on_slice({device, {id}}, NVML_ERROR_NOT_SUPPORTED, [&](const DeviceView&, std::uint32_t) { *id = 0; });
}

nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_v1_t* attributes) {
  return attributes_of({device, {attributes}}, attributes);
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t* attributes) {
  return attributes_of({device, {attributes}}, attributes);
}

}  // extern "C"
}  // namespace headgate::sim::nvml
