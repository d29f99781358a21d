// The calling thread's current context, cached between calls that can change it: an allocation then needs no other
// driver call.
//
// All such calls pass our hooks (current_hooks.cpp, lifecycle_hooks.cpp), except the interop calls that create a
// context for OpenGL or VDPAU, and the driver's undocumented tables.
#pragma once

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

struct Current {
  abi::CUcontext context = nullptr;
  abi::CUdevice device = 0;
};

// Returns CUDA_SUCCESS with a context in `out`, or the driver's error: CUDA_ERROR_INVALID_CONTEXT if there is none.
abi::CUresult current_context(Current& out);

// Asks with the context made current, past our hooks; the thread's context is the former one afterwards.
bool device_of(abi::CUcontext context, abi::CUdevice& device);

// Call after a call that may have changed this thread's current context.
void current_changed();

// Call before and after a context is destroyed: it may be current to any thread.
void contexts_changed();

}  // namespace headgate::limiter
