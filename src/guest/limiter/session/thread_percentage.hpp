// CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, as the driver read it: the part of a GPU's SMs this process may use as a client of
// an MPS server. Only NVML knows whether it is one; the daemon reports that (guest/ledger/node_page.hpp).
#pragma once

#include <cstdint>

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

// Call before each cuInit of the driver, which reads the variable at the first. Later changes by the program only make
// the value uncertain.
void note_thread_percentage();

// Call when a context was created: reports the percentage for that device in this process's slot. `index`: in the
// share's pages.
void tell_thread_percentage(abi::CUdevice device, std::uint32_t index);

// Returns the time ceiling left for the share's limiters to enforce on a device, from a ceiling of 1..kWholeGpu ppm.
// The SM restriction must not count twice: 30 % of the time on 30 % of the SMs would be 9 %. The result is ceiling / SM
// part. If that is the whole GPU or more, kNoTimeLimit: the launch path enforces nothing. If one process may use all
// SMs, the result is the ceiling itself.
inline constexpr std::uint32_t kNoTimeLimit = 4'000'000;
std::uint32_t ceiling_beside_mps(std::uint32_t device, std::uint32_t ceiling_ppm);

}  // namespace headgate::limiter
