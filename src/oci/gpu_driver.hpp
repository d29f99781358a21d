// The GPUs of a share and the files of their driver, taken over from the CDI document that NVIDIA's tools make of the
// machine (kind nvidia.com/gpu).
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
  std::uint32_t index = 0;  // as NVML counts, and nvidia-ctk
};

// What gives a container exactly these GPUs: what every container of the document gets, then each GPU's own, each edit
// once. Device nodes have no numbers: the engine reads those of the host, which change with each load of the driver.
// Errors: not_found, for a GPU of which the document has neither the UUID nor the index.
[[nodiscard]] Result<Edits> gpu_driver(const Document& document, std::span<const GpuRef> gpus);

}  // namespace headgate::oci
