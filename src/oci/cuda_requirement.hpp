// What an image says that it needs of the node: NVIDIA_REQUIRE_CUDA and kin ("cuda>=12.4 brand=tesla,driver>=535").
// Source: the NVIDIA container toolkit's documentation of its environment variables.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace headgate::oci {

// Of the node; empty: not known, and nothing is refused for it.
struct GpuFacts {
  std::string driver;  // "535.261.03"
  std::string cuda;    // that the driver has: "12.2"
  std::string brand;   // "tesla"
  std::string arch;    // compute capability: "9.0"
};

// The newest CUDA of a driver of this version, by NVIDIA's table of branches; empty: older or newer than the table.
[[nodiscard]] std::string cuda_of_driver(std::string_view driver);

// Whether the node has what the environment asks for, in each variable NVIDIA_REQUIRE_*: one of its parts (with spaces
// between), with all conditions of that part (with commas). NVIDIA_DISABLE_REQUIRE set to 1 or true asks for nothing.
// Errors: unsupported: "the image needs CUDA 12.4, driver 535.261.03 has 12.2"; usage for what is no condition.
[[nodiscard]] Result<void> check_requirements(std::span<const std::string> environment, const GpuFacts& facts);

}  // namespace headgate::oci
