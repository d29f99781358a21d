// The calling thread's current context, remembered between the calls that can change it: an allocation then asks the
// driver for the allocation and nothing else.
//
// All such calls pass our hooks (current_hooks.cpp, lifecycle_hooks.cpp). What could change it behind them: the interop
// calls that make a context for OpenGL or VDPAU, and the driver's undocumented tables.
#pragma once

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

struct Current {
  abi::CUcontext context = nullptr;
  abi::CUdevice device = 0;
};

// CUDA_SUCCESS with a context in `out`, or the driver's answer: CUDA_ERROR_INVALID_CONTEXT where there is none.
abi::CUresult current_context(Current& out);

// After a call of this thread that may have made another context current to it.
void current_changed();

// Before and after a context goes: it may be current to any thread.
void contexts_changed();

}  // namespace headgate::limiter
