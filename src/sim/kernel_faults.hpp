// Errors with which a kernel can end its context, as documented in cuda.h, and the XID that NVML reports for each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace headgate::sim {

struct KernelFault {
  std::string_view name;  // in pragmas and fault rules
  std::uint32_t error;    // CUresult (cuda.h)
  std::uint32_t xid;      // from NVIDIA's catalogue: 8 watchdog, 13 engine exception, 31 MMU, 43 channel reset
};

inline constexpr KernelFault kKernelFaults[] = {
    {"ecc_uncorrectable", 214, 48},    {"illegal_address", 700, 31},
    {"launch_timeout", 702, 8},        {"assert", 710, 43},
    {"hardware_stack_error", 714, 13}, {"illegal_instruction", 715, 13},
    {"misaligned_address", 716, 13},   {"invalid_address_space", 717, 13},
    {"invalid_pc", 718, 13},           {"launch_failed", 719, 13},
};

inline constexpr std::uint32_t kErrorIllegalAddress = 700, kErrorLaunchTimeout = 702, kErrorAssert = 710;

// Returns nullptr for any other error.
constexpr const KernelFault* kernel_fault(std::uint32_t error) {
  const auto* found = std::ranges::find(kKernelFaults, error, &KernelFault::error);
  return found == std::end(kKernelFaults) ? nullptr : found;
}
constexpr const KernelFault* kernel_fault(std::string_view name) {
  const auto* found = std::ranges::find(kKernelFaults, name, &KernelFault::name);
  return found == std::end(kKernelFaults) ? nullptr : found;
}

// cuda.h, for all of them except the assertion: the process cannot use CUDA any more and must be restarted.
constexpr bool ends_process(std::uint32_t error) { return kernel_fault(error) != nullptr && error != kErrorAssert; }

}  // namespace headgate::sim
