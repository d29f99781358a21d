// What NVML shows of the node inside a share: its GPUs, numbered as CUDA numbers them (Session::shown).
#pragma once

#include <cstdint>

#include "guest/abi/nvml.hpp"

namespace headgate::limiter {

// How many GPUs NVML shows. 0: it shows all, by the driver's own numbers. Needs a process that has called nvmlInit;
// thread-safe.
std::uint32_t shown_gpus();

// The driver's number of the GPU that is shown as `number`, which is below shown_gpus().
unsigned driver_number(std::uint32_t number);

// The number that `device` is shown by; false where the driver's own stands: nothing is renumbered, or it is a MIG
// slice.
bool shown_number(abi::nvmlDevice_t device, unsigned& number);

// Whether it is a GPU, or a MIG slice of one, that the share does not have and NVML does not show.
bool is_hidden(abi::nvmlDevice_t device);

// The share's GPUs may be others than before.
void forget_nvml_numbers();

}  // namespace headgate::limiter
