// Checks an image's requirements on the node: NVIDIA_REQUIRE_CUDA and similar ("cuda>=12.4 brand=tesla,driver>=535").
// Source: the NVIDIA container toolkit's documentation of its environment variables.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace headgate::oci {

// Facts about the node. Empty ones are unknown, and refuse nothing.
struct GpuFacts {
  std::string driver;  // "535.261.03"
  std::string cuda;    // the driver's version: "12.2"
  std::string brand;   // "tesla"
  std::string arch;    // compute capability: "9.0"
};

// Returns the newest CUDA version of this driver, by NVIDIA's table of branches; empty if the driver is not covered.
[[nodiscard]] std::string cuda_of_driver(std::string_view driver);

// Checks each variable NVIDIA_REQUIRE_*: at least one of its parts (separated by spaces) must hold with all its
// conditions (separated by commas). NVIDIA_DISABLE_REQUIRE=1 or true disables the check. Errors: unsupported: "the
// image needs CUDA 12.4, driver 535.261.03 has 12.2"; usage for an invalid condition.
[[nodiscard]] Result<void> check_requirements(std::span<const std::string> environment, const GpuFacts& facts);

}  // namespace headgate::oci
