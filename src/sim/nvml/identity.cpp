// Which devices exist, and their fixed properties. Nothing here changes during a node's life.
#include <cstdio>
#include <cstring>
#include <string>

#include "sim/mig.hpp"
#include "sim/nvml/library.hpp"

namespace headgate::sim::nvml {
namespace {

// Finds the first device that `matches`, or returns `missing`.
template <typename Matches>
nvmlReturn_t find_device(const void* wanted, nvmlDevice_t* out, const char* function, Matches&& matches,
                         nvmlReturn_t missing = NVML_ERROR_NOT_FOUND) {
  const auto look = [&](Node& node) {
    if (wanted == nullptr || out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    for (std::uint32_t i = 0; i < node.profile().count; ++i) {
      if (!matches(node.profile(), i)) continue;
      if (node.is_removed() || device_lost(i)) return NVML_ERROR_GPU_IS_LOST;
      *out = handle_of(i);
      return NVML_SUCCESS;
    }
    return missing;
  };
  return answer(look, function);
}

nvmlReturn_t by_index(unsigned index, nvmlDevice_t* out, const char* function = __builtin_FUNCTION()) {
  const auto matches = [index](const Profile&, std::uint32_t i) { return i == index; };
  return find_device(out, out, function, matches, NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t by_pci(const char* bus_id, nvmlDevice_t* out, const char* function = __builtin_FUNCTION()) {
  PciAddress address;
  const bool is_of_gpu = split_pci_address(bus_id, address) && address.function == 0;
  const auto matches = [&address](const Profile& profile, std::uint32_t i) {
    return address.domain == profile.pci_domain && address.bus == pci_bus(profile, i) && address.device == 0;
  };
  return find_device(is_of_gpu ? bus_id : nullptr, out, function, matches);
}

// Both layouts share the names of their fields.
template <typename Info>
void fill_pci(const Profile& profile, std::uint32_t index, Info& out) {
  out = {};
  out.domain = profile.pci_domain;
  out.bus = pci_bus(profile, index);
  out.pciDeviceId = profile.pci_device_id;
  out.pciSubSystemId = profile.pci_subsystem_id;
}

nvmlReturn_t pci_v1(DeviceCall call, nvmlPciInfo_v1_t* out) {
  return on_device(call, [&](const DeviceView& view) {
    fill_pci(view.profile(), view.index(), *out);
    const auto bus_id = pci_bus_id_legacy(view.profile(), view.index());
    std::memcpy(out->busId, bus_id.data(), bus_id.size());
  });
}

nvmlReturn_t gpu_count(unsigned* out, const char* function = __builtin_FUNCTION()) {
  return node_value(out, [](Node& node) { return node.profile().count; }, function);
}
nvmlReturn_t cuda_version(int* out, const char* function = __builtin_FUNCTION()) {
  return node_value(out, [](Node& node) { return node.profile().cuda_version; }, function);
}

}  // namespace

bool split_pci_address(const char* text, PciAddress& out) {
  if (text == nullptr) return false;
  out = {};
  auto& [domain, bus, device, function] = out;
  char more = 0;  // %c fails at the text's end only
  if (std::sscanf(text, "%x:%x:%x.%x%c", &domain, &bus, &device, &function, &more) == 4) return true;
  function = 0;
  if (std::sscanf(text, "%x:%x:%x%c", &domain, &bus, &device, &more) == 3) return true;
  domain = 0;
  return std::sscanf(text, "%x:%x.%x%c", &bus, &device, &function, &more) == 3;
}

extern "C" {

nvmlReturn_t nvmlDeviceGetCount(unsigned* deviceCount) { return gpu_count(deviceCount); }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* deviceCount) { return gpu_count(deviceCount); }
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* device) { return by_index(index, device); }
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) { return by_index(index, device); }
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* pciBusId, nvmlDevice_t* device) {
  return by_pci(pciBusId, device);
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* pciBusId, nvmlDevice_t* device) {
  return by_pci(pciBusId, device);
}

// Finds a GPU or a MIG slice.
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  std::optional<SliceOfDevice> slice;
  const auto result =
      find_device(uuid, device, "nvmlDeviceGetHandleByUUID", [&](const Profile& profile, std::uint32_t i) {
        for (std::uint32_t s = 0; s < profile.mig_count && !slice; ++s) {
          if (std::strcmp(uuid, mig_uuid_text(profile, i, s).data()) == 0) slice = {i, s};
        }
        return slice || std::strcmp(uuid, uuid_text(profile, i).data()) == 0;
      });
  if (result == NVML_SUCCESS && slice) *device = handle_of(*slice);
  return result;
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char* serial, nvmlDevice_t* device) {
  return find_device(serial, device, "nvmlDeviceGetHandleBySerial", [&](const Profile& profile, std::uint32_t i) {
    return std::strcmp(serial, serial_number(profile, i).data()) == 0;
  });
}

// For a MIG slice, returns its index within its GPU.
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* index) {
  return on_device_or_slice({device, {index}},
                            [&](const DeviceView& view, Slice slice) { *index = slice.value_or(view.index()); });
}

SIM_GETTER(nvmlDeviceGetMinorNumber, unsigned, view.index())
SIM_GETTER(nvmlDeviceGetBoardId, unsigned, pci_bus(view.profile(), view.index()) << 8)
SIM_GETTER(nvmlDeviceGetMultiGpuBoard, unsigned, 0U)

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned length) {
  return on_device_or_slice(device, [&](const DeviceView& view, Slice slice) {
    std::string text = view.profile().model;
    if (slice) text += std::string(" MIG ") + mig_name(view.profile(), view.profile().mig[*slice]).data();
    return give_text(text, name, length);
  });
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned length) {
  return on_device_or_slice(device, [&](const DeviceView& view, Slice slice) {
    const auto text =
        slice ? mig_uuid_text(view.profile(), view.index(), *slice) : uuid_text(view.profile(), view.index());
    return give_text(text.data(), uuid, length);
  });
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char* serial, unsigned length) {
  return text_of(device, serial, length, [](const DeviceView& view) {
    return std::string(serial_number(view.profile(), view.index()).data());
  });
}

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char* version, unsigned length) {
  return text_of(device, version, length, [](const DeviceView& view) { return view.profile().vbios_version; });
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v1_t* pci) { return pci_v1({device, {pci}}, pci); }
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v1_t* pci) {
  return pci_v1({device, {pci}}, pci);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return on_device({device, {pci}}, [&](const DeviceView& view) {
    fill_pci(view.profile(), view.index(), *pci);
    const auto legacy = pci_bus_id_legacy(view.profile(), view.index());
    const auto full = pci_bus_id(view.profile(), view.index());
    std::memcpy(pci->busIdLegacy, legacy.data(), legacy.size());
    std::memcpy(pci->busId, full.data(), full.size());
  });
}

SIM_GETTER(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, view.profile().nvml_architecture)
SIM_GETTER(nvmlDeviceGetBrand, nvmlBrandType_t, view.profile().nvml_brand)

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  return on_device({device, {major, minor}}, [&](const DeviceView& view) {
    *major = static_cast<int>(view.profile().capability_major);
    *minor = static_cast<int>(view.profile().capability_minor);
  });
}

SIM_GETTER(nvmlDeviceGetNumGpuCores, unsigned, view.profile().sm_count* view.profile().cores_per_sm)
SIM_GETTER(nvmlDeviceGetMemoryBusWidth, unsigned, view.profile().memory_bus_bits)

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* cudaDriverVersion) { return cuda_version(cudaDriverVersion); }
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* cudaDriverVersion) { return cuda_version(cudaDriverVersion); }

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return answer([&](Node& node) { return give_text(node.profile().driver_version, version, length); });
}

// CUDA's major version, then the driver version.
nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  return answer([&](Node& node) {
    return give_text(std::to_string(node.profile().cuda_version / 1000) + "." + node.profile().driver_version, version,
                     length);
  });
}

nvmlReturn_t nvmlUnitGetCount(unsigned* unitCount) {
  return node_value(unitCount, [](Node&) { return 0U; });
}

}  // extern "C"
}  // namespace headgate::sim::nvml
