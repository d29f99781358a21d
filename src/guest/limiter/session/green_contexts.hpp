// Green contexts by the handles that make them current (cuCtxFromGreenCtx). cuda.h: such a handle is the device's
// primary context with fewer SMs, so memory that is allocated under it lives as long as the primary context.
#pragma once

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

// After cuCtxFromGreenCtx, and before the green context is destroyed.
void know_green(abi::CUcontext handle, abi::CUcontext primary);
void forget_green(abi::CUcontext handle);

// The primary context of a green context's handle; any other handle is itself. One load while there are none.
abi::CUcontext root_of(abi::CUcontext context);

// Calls forget(handle) for each green context's handle of this primary context, and forgets them.
void forget_green_of(abi::CUcontext primary, void (*forget)(abi::CUcontext));

}  // namespace headgate::limiter
