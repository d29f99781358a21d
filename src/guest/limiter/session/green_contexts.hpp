// Green contexts by the handles that make them current (cuCtxFromGreenCtx). By cuda.h, such a handle is the device's
// primary context with fewer SMs, so memory allocated under it lives as long as the primary context.
#pragma once

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

// Call after cuCtxFromGreenCtx, and before the green context is destroyed.
void know_green(abi::CUcontext handle, abi::CUcontext primary);
void forget_green(abi::CUcontext handle);

// Returns the primary context of a green context's handle; otherwise the handle itself. One load if there are none.
abi::CUcontext root_of(abi::CUcontext context);

// Calls forget(handle) for each green context's handle of this primary context, then forgets them.
void forget_green_of(abi::CUcontext primary, void (*forget)(abi::CUcontext));

}  // namespace headgate::limiter
