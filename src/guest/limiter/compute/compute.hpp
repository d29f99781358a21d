// What the rest of the limiter tells the meter and the gate. Everything else in this folder is private to it.
#pragma once

#include <cstdint>

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

// After a context was made on a device of the share (its index there); null: one whose handle we are not told.
void compute_know_context(abi::CUcontext context, std::uint32_t device);

// Before cuCtxDestroy / cuDevicePrimaryCtxReset / Release is forwarded: the context's brackets and events are dropped.
void compute_forget_context(abi::CUcontext context);

// In a forked child, in this order, with what they call apart reset between them: nothing is metered; no threads, no
// brackets, no credit.
void meter_stops_after_fork();
void meter_reset_after_fork();

}  // namespace headgate::limiter
