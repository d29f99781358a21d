// The GPUs of a node and the files of their driver, found without NVIDIA's tools, as the CDI document that these would
// make (kind nvidia.com/gpu). For compute, utility and video: no libraries of graphics, and no hooks. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oci/cdi_document.hpp"

namespace headgate::oci {

struct InventoryGpu {
  std::string uuid;
  std::uint32_t minor = 0;  // of /dev/nvidiaN
  friend bool operator==(const InventoryGpu&, const InventoryGpu&) = default;
};

struct DriverFile {
  std::string host_path;           // no link
  std::vector<std::string> names;  // that programs know it by; empty: a program, at its own path
  friend bool operator==(const DriverFile&, const DriverFile&) = default;
};

struct GpuInventory {
  std::vector<InventoryGpu> gpus;          // in the order of their PCI addresses, which is nvidia-smi's
  std::vector<std::string> control_nodes;  // /dev/nvidiactl and kin
  std::vector<DriverFile> files;
  friend bool operator==(const GpuInventory&, const GpuInventory&) = default;
};

// Of the text of /proc/driver/nvidia/gpus/ADDRESS/information; empty: it has no UUID or no minor.
[[nodiscard]] std::optional<InventoryGpu> gpu_of_information(std::string_view text);

// Whether containers need a library of the driver: "libcuda.so.535.261.03" of `version` "535.261.03".
[[nodiscard]] bool is_needed_library(std::string_view file, std::string_view version);

// Devices by UUID, by index, and "all"; at the lowest version. Empty where there is no GPU or no libcuda: such a
// document would give a container nothing.
[[nodiscard]] std::optional<Document> inventory_document(const GpuInventory& inventory);

}  // namespace headgate::oci
