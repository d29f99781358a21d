// Past the limit: linear memory that stays in host memory, up to the share's host budget (HEADGATE_HOST_MEM). Opt-in.
#pragma once

#include <cstdint>

#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {

// Whether the share was promised more than the card has, so that its host budget stands in for the card's memory too.
bool is_oversubscribed(const Place& place);

// Charges the share's host budget on that device. False: there is none, or it is used up.
bool reserve_on_host(std::uint32_t device_index, std::uint64_t bytes);

// After reserve_on_host(): managed memory that prefers the processor and is mapped for the GPU. Gives the reservation
// back and answers OUT_OF_MEMORY where the driver does not make it so, or the driver's final answer.
abi::CUresult allocate_on_host(abi::CUdeviceptr* pointer, std::uint64_t bytes, const Place& place);

}  // namespace headgate::limiter
