// What NVML shows inside a share: its GPUs, numbered as CUDA numbers them (Session::shown).
#pragma once

#include <cstdint>

#include "guest/abi/nvml.hpp"

namespace headgate::limiter {

// Returns how many GPUs NVML shows; 0: all, by the driver's numbers. Only after the process called nvmlInit;
// thread-safe.
std::uint32_t shown_gpus();

// Returns the driver's number of the GPU shown as `number`, which is below shown_gpus().
unsigned driver_number(std::uint32_t number);

// Finds the number by which `device` is shown; false if the driver's number applies: nothing is renumbered, or it is a
// MIG slice.
bool shown_number(abi::nvmlDevice_t device, unsigned& number);

// Returns whether it is a GPU, or a MIG slice of one, that is not in the share and that NVML does not show.
bool is_hidden(abi::nvmlDevice_t device);

// Call when the share's GPUs may have changed.
void forget_nvml_numbers();

}  // namespace headgate::limiter
