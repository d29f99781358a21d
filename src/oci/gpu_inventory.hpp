// Describes a node's GPUs and driver files without NVIDIA's tools, as the CDI document these would make (kind
// nvidia.com/gpu). For compute, utility and video: no graphics libraries, no hooks. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "oci/cdi_document.hpp"

namespace headgate::oci {

struct InventoryGpu {
  std::string uuid;
  std::uint32_t minor = 0;  // the number in /dev/nvidiaN
  friend bool operator==(const InventoryGpu&, const InventoryGpu&) = default;
};

struct DriverFile {
  std::string host_path;           // resolved, not a link
  std::vector<std::string> names;  // names that programs use; empty: a program, mounted at its own path
  friend bool operator==(const DriverFile&, const DriverFile&) = default;
};

struct GpuInventory {
  std::vector<InventoryGpu> gpus;          // by PCI address, as in nvidia-smi
  std::vector<std::string> control_nodes;  // /dev/nvidiactl and kin
  std::vector<DriverFile> files;
  friend bool operator==(const GpuInventory&, const GpuInventory&) = default;
};

// Parses /proc/driver/nvidia/gpus/ADDRESS/information; empty if UUID or minor is missing.
[[nodiscard]] std::optional<InventoryGpu> gpu_of_information(std::string_view text);

// Returns true for driver libraries that containers need: "libcuda.so.535.261.03" for `version` "535.261.03".
[[nodiscard]] bool is_needed_library(std::string_view file, std::string_view version);

// Returns devices by UUID, by index, and "all", at the lowest version. Empty without a GPU or libcuda, because such a
// document would have no effect.
[[nodiscard]] std::optional<Document> inventory_document(const GpuInventory& inventory);

inline constexpr std::string_view kGpuKind = "nvidia.com/gpu";

struct GpuRef {
  std::string uuid;
  std::uint32_t index = 0;  // as in NVML and nvidia-ctk
};

// Returns the edits for exactly these GPUs: the document's common edits, then each GPU's own, without repeats. Device
// nodes have no numbers: the engine reads the host's, which change whenever the driver is loaded. Errors: not_found if
// the document has neither a GPU's UUID nor its index.
[[nodiscard]] Result<Edits> gpu_driver(const Document& document, std::span<const GpuRef> gpus);

}  // namespace headgate::oci
