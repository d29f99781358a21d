// Extracts a share's GPUs and their driver files from the CDI document that NVIDIA's tools generate (kind
// nvidia.com/gpu).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.hpp"
#include "oci/cdi_document.hpp"

namespace headgate::oci {

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
