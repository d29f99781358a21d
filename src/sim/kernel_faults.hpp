// How a kernel can end its context: the errors that cuda.h documents as leaving a context unusable, and what NVML tells
// of each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace headgate::sim {

struct KernelFault {
  std::string_view name;  // in pragmas and fault rules
  std::uint32_t error;    // CUresult (cuda.h)
  std::uint32_t
      xid;  // NVIDIA's XID catalogue: 13 an exception of the engine, 31 of the MMU, 8 the watchdog, 43 a reset channel
};

inline constexpr KernelFault kKernelFaults[] = {
    {"ecc_uncorrectable", 214, 48},    {"illegal_address", 700, 31},
    {"launch_timeout", 702, 8},        {"assert", 710, 43},
    {"hardware_stack_error", 714, 13}, {"illegal_instruction", 715, 13},
    {"misaligned_address", 716, 13},   {"invalid_address_space", 717, 13},
    {"invalid_pc", 718, 13},           {"launch_failed", 719, 13},
};

inline constexpr std::uint32_t kErrorIllegalAddress = 700, kErrorLaunchTimeout = 702, kErrorAssert = 710;

// nullptr where it is none.
constexpr const KernelFault* kernel_fault(std::uint32_t error) {
  const auto* found = std::ranges::find(kKernelFaults, error, &KernelFault::error);
  return found == std::end(kKernelFaults) ? nullptr : found;
}
constexpr const KernelFault* kernel_fault(std::string_view name) {
  const auto* found = std::ranges::find(kKernelFaults, name, &KernelFault::name);
  return found == std::end(kKernelFaults) ? nullptr : found;
}

// cuda.h of all of them but the assertion: the process cannot go on with CUDA and must be started again.
constexpr bool ends_process(std::uint32_t error) { return kernel_fault(error) != nullptr && error != kErrorAssert; }

}  // namespace headgate::sim
