// Past the limit: linear memory in host memory, up to the share's host budget (HEADGATE_HOST_MEM). Opt-in.
#pragma once

#include <cstdint>

#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {

// Returns whether the share was promised more than the card has; then its host budget also replaces card memory.
bool is_oversubscribed(const Place& place);

// Charges the share's host budget on that device. Returns false if there is none, or it is used up.
bool reserve_on_host(std::uint32_t device_index, std::uint64_t bytes);

// Call after reserve_on_host(): allocates managed memory that prefers the CPU and is mapped for the GPU. If the driver
// fails, gives the reservation back and returns OUT_OF_MEMORY, or the driver's final error.
abi::CUresult allocate_on_host(abi::CUdeviceptr* pointer, std::uint64_t bytes, const Place& place);

}  // namespace headgate::limiter
