// The heads of descriptors that programs pass (CUDA 13.0's cuda.h, compared by descriptor_abi_check.cpp).
#pragma once

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

// Of CUmemAllocationProp.
struct AllocationProp {
  unsigned type;
  unsigned requested_handle_types;
  abi::CUmemLocation location;
};
inline constexpr unsigned kLocationDevice = 1;

// Of CUDA_EXTERNAL_MEMORY_HANDLE_DESC.
struct ExternalMemoryHead {
  unsigned type;
  union {
    int fd;
    void* win32[2];
  } handle;
  unsigned long long size;
};

}  // namespace headgate::limiter
