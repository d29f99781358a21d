// CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, as the driver found it: what of a GPU's SMs this process may have if it is a
// client of an MPS server. Whether it is one only NVML says, and the daemon tells (guest/ledger/node_page.hpp).
#pragma once

#include <cstdint>

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

// Called before each cuInit of the driver, which reads the variable at the first: what the program sets later moves
// nothing here but the trust in it.
void note_thread_percentage();

// Called when a context was made: tells in this process's slot what holds on that device. `index`: of the share's
// pages.
void tell_thread_percentage(abi::CUdevice device, std::uint32_t index);

// The ceiling of GPU time that is left for the share's limiters to hold on a device, of one of 1..kWholeGpu ppm. What
// the processes of the share have of the SMs together is not taken from them a second time: 30 % of the time on 30 % of
// the SMs would be 9 %. So it is all of the time where their part is no more than the ceiling, half of it where it is
// twice as much, and the ceiling itself where one of them may have all. kNoTimeLimit: the launch path need not hold
// anything.
inline constexpr std::uint32_t kNoTimeLimit = 4'000'000;
std::uint32_t ceiling_beside_mps(std::uint32_t device, std::uint32_t ceiling_ppm);

}  // namespace headgate::limiter
