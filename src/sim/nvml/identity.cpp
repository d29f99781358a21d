// Which devices exist, and their fixed properties. Nothing here changes during a node's life.
#include <cstdio>
#include <cstring>
#include <string>

#include "sim/mig.hpp"
#include "sim/nvml/library.hpp"

namespace headgate::sim::nvml {
namespace {

using abi::nvmlDevice_t;
using abi::nvmlReturn_t;

nvmlReturn_t count(const char* function, unsigned* out) {
  return node_value(function, out, [](Node& node) { return node.profile().count; });
}

// Finds the first device that `matches`, or returns NOT_FOUND.
template <typename Matches>
nvmlReturn_t find_device(const char* function, const void* wanted, nvmlDevice_t* out, Matches&& matches) {
  return answer(function, [&](Node& node) {
    if (wanted == nullptr || out == nullptr) return abi::NVML_ERROR_INVALID_ARGUMENT;
    for (std::uint32_t i = 0; i < node.profile().count; ++i) {
      if (!matches(node.profile(), i)) continue;
      if (node.is_removed() || device_lost(i)) return abi::NVML_ERROR_GPU_IS_LOST;
      *out = handle_of(i);
      return abi::NVML_SUCCESS;
    }
    return abi::NVML_ERROR_NOT_FOUND;
  });
}

nvmlReturn_t by_index(const char* function, unsigned index, nvmlDevice_t* out) {
  return answer(function, [&](Node& node) {
    if (out == nullptr || index >= node.profile().count) return abi::NVML_ERROR_INVALID_ARGUMENT;
    if (node.is_removed() || device_lost(index)) return abi::NVML_ERROR_GPU_IS_LOST;
    *out = handle_of(index);
    return abi::NVML_SUCCESS;
  });
}

nvmlReturn_t by_pci(const char* function, const char* bus_id, nvmlDevice_t* out) {
  unsigned domain = 0, bus = 0, slot = 0, part = 0;
  const bool full = bus_id != nullptr && std::sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &part) == 4;
  if (bus_id != nullptr && !full) domain = 0, part = 0;
  const bool known = full || (bus_id != nullptr && std::sscanf(bus_id, "%x:%x.%x", &bus, &slot, &part) == 3);
  return find_device(function, bus_id, out, [&](const Profile& profile, std::uint32_t i) {
    return known && domain == profile.pci_domain && bus == pci_bus(profile, i) && slot == 0 && part == 0;
  });
}

// Finds a GPU or a MIG slice.
nvmlReturn_t by_uuid(const char* function, const char* uuid, nvmlDevice_t* out) {
  std::optional<SliceOfDevice> slice;
  const auto result = find_device(function, uuid, out, [&](const Profile& profile, std::uint32_t i) {
    for (std::uint32_t s = 0; s < profile.mig_count && !slice; ++s) {
      if (std::strcmp(uuid, mig_uuid_text(profile, i, s).data()) == 0) slice = {i, s};
    }
    return slice || std::strcmp(uuid, uuid_text(profile, i).data()) == 0;
  });
  if (result == abi::NVML_SUCCESS && slice) *out = handle_of(*slice);
  return result;
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

nvmlReturn_t pci_v1(const char* function, nvmlDevice_t device, abi::nvmlPciInfo_v1_t* out) {
  return on_device(function, device, [&](const DeviceView& view) {
    if (out == nullptr) return abi::NVML_ERROR_INVALID_ARGUMENT;
    fill_pci(view.profile(), view.index(), *out);
    const auto bus_id = pci_bus_id_legacy(view.profile(), view.index());
    std::memcpy(out->busId, bus_id.data(), bus_id.size());
    return abi::NVML_SUCCESS;
  });
}

nvmlReturn_t cuda_version(const char* function, int* out) {
  return node_value(function, out, [](Node& node) { return node.profile().cuda_version; });
}

}  // namespace
}  // namespace headgate::sim::nvml

namespace headgate::abi {
namespace nvml = sim::nvml;
using nvml::DeviceView;

extern "C" {

nvmlReturn_t nvmlDeviceGetCount(unsigned* deviceCount) { return nvml::count("nvmlDeviceGetCount", deviceCount); }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* deviceCount) { return nvml::count("nvmlDeviceGetCount_v2", deviceCount); }
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* device) {
  return nvml::by_index("nvmlDeviceGetHandleByIndex", index, device);
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  return nvml::by_index("nvmlDeviceGetHandleByIndex_v2", index, device);
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* pciBusId, nvmlDevice_t* device) {
  return nvml::by_pci("nvmlDeviceGetHandleByPciBusId", pciBusId, device);
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* pciBusId, nvmlDevice_t* device) {
  return nvml::by_pci("nvmlDeviceGetHandleByPciBusId_v2", pciBusId, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  return nvml::by_uuid("nvmlDeviceGetHandleByUUID", uuid, device);
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char* serial, nvmlDevice_t* device) {
  return nvml::find_device("nvmlDeviceGetHandleBySerial", serial, device,
                           [&](const sim::Profile& profile, std::uint32_t i) {
                             return std::strcmp(serial, sim::serial_number(profile, i).data()) == 0;
                           });
}

// For a MIG slice, returns its index within its GPU.
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* index) {
  return nvml::on_device_or_slice("nvmlDeviceGetIndex", device,
                                  [&](const DeviceView& view, std::optional<std::uint32_t> slice) {
                                    if (index == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
                                    *index = slice.value_or(view.index());
                                    return NVML_SUCCESS;
                                  });
}

SIM_GETTER(nvmlDeviceGetMinorNumber, unsigned, view.index())

SIM_GETTER(nvmlDeviceGetBoardId, unsigned, pci_bus(view.profile(), view.index()) << 8)

SIM_GETTER(nvmlDeviceGetMultiGpuBoard, unsigned, 0U)

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned length) {
  return nvml::on_device_or_slice(
      "nvmlDeviceGetName", device, [&](const DeviceView& view, std::optional<std::uint32_t> slice) {
        std::string text = view.profile().model;
        if (slice) text += std::string(" MIG ") + sim::mig_name(view.profile(), view.profile().mig[*slice]).data();
        return nvml::give_text(text, name, length);
      });
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned length) {
  return nvml::on_device_or_slice("nvmlDeviceGetUUID", device,
                                  [&](const DeviceView& view, std::optional<std::uint32_t> slice) {
                                    const auto text = slice ? sim::mig_uuid_text(view.profile(), view.index(), *slice)
                                                            : sim::uuid_text(view.profile(), view.index());
                                    return nvml::give_text(text.data(), uuid, length);
                                  });
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char* serial, unsigned length) {
  return nvml::on_device("nvmlDeviceGetSerial", device, [&](const DeviceView& view) {
    return nvml::give_text(serial_number(view.profile(), view.index()).data(), serial, length);
  });
}

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char* version, unsigned length) {
  return nvml::on_device("nvmlDeviceGetVbiosVersion", device, [&](const DeviceView& view) {
    return nvml::give_text(view.profile().vbios_version, version, length);
  });
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v1_t* pci) {
  return nvml::pci_v1("nvmlDeviceGetPciInfo", device, pci);
}
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v1_t* pci) {
  return nvml::pci_v1("nvmlDeviceGetPciInfo_v2", device, pci);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return nvml::on_device("nvmlDeviceGetPciInfo_v3", device, [&](const DeviceView& view) {
    if (pci == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    nvml::fill_pci(view.profile(), view.index(), *pci);
    const auto legacy = sim::pci_bus_id_legacy(view.profile(), view.index());
    const auto full = sim::pci_bus_id(view.profile(), view.index());
    std::memcpy(pci->busIdLegacy, legacy.data(), legacy.size());
    std::memcpy(pci->busId, full.data(), full.size());
    return NVML_SUCCESS;
  });
}

SIM_GETTER(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, view.profile().nvml_architecture)

SIM_GETTER(nvmlDeviceGetBrand, nvmlBrandType_t, view.profile().nvml_brand)

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  return nvml::on_device("nvmlDeviceGetCudaComputeCapability", device, [&](const DeviceView& view) {
    if (major == nullptr || minor == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *major = static_cast<int>(view.profile().capability_major);
    *minor = static_cast<int>(view.profile().capability_minor);
    return NVML_SUCCESS;
  });
}

SIM_GETTER(nvmlDeviceGetNumGpuCores, unsigned, view.profile().sm_count* view.profile().cores_per_sm)

SIM_GETTER(nvmlDeviceGetMemoryBusWidth, unsigned, view.profile().memory_bus_bits)

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* cudaDriverVersion) {
  return nvml::cuda_version("nvmlSystemGetCudaDriverVersion", cudaDriverVersion);
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* cudaDriverVersion) {
  return nvml::cuda_version("nvmlSystemGetCudaDriverVersion_v2", cudaDriverVersion);
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return nvml::answer("nvmlSystemGetDriverVersion",
                      [&](sim::Node& node) { return nvml::give_text(node.profile().driver_version, version, length); });
}

// CUDA's major version, then the driver version.
nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  return nvml::answer("nvmlSystemGetNVMLVersion", [&](sim::Node& node) {
    return nvml::give_text(std::to_string(node.profile().cuda_version / 1000) + "." + node.profile().driver_version,
                           version, length);
  });
}

nvmlReturn_t nvmlUnitGetCount(unsigned* unitCount) {
  return nvml::node_value("nvmlUnitGetCount", unitCount, [](sim::Node&) { return 0U; });
}

}  // extern "C"
}  // namespace headgate::abi
