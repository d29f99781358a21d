// The head of CUDA_EXTERNAL_MEMORY_HANDLE_DESC (CUDA 13.0's cuda.h, compared by descriptor_abi_check.cpp).
#pragma once

namespace headgate::limiter {

struct ExternalMemoryHead {
  unsigned type;
  union {
    int fd;
    void* win32[2];
  } handle;
  unsigned long long size;
};

}  // namespace headgate::limiter
