// The head of CUmemAllocationProp (CUDA 13.0's cuda.h, compared by descriptor_abi_check.cpp).
#pragma once

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

struct AllocationProp {
  unsigned type;
  unsigned requested_handle_types;
  abi::CUmemLocation location;
};
inline constexpr unsigned kLocationDevice = 1;

}  // namespace headgate::limiter
