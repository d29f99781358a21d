// Notifications from the rest of the limiter to the meter and the gate. All else in this folder is private to it.
#pragma once

#include <cstdint>

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

// Call after a context was created on a device of the share (its index there); null: the handle is not known.
void compute_know_context(abi::CUcontext context, std::uint32_t device);

// Call before forwarding cuCtxDestroy or cuDevicePrimaryCtxReset / Release: drops the context's brackets and events.
void compute_forget_context(abi::CUcontext context);

// Call in a forked child, in this order, with the state of other rooms reset in between. The first stops metering; the
// second clears threads, brackets and credit.
void meter_stops_after_fork();
void meter_reset_after_fork();

}  // namespace headgate::limiter
