// What the rest of the limiter tells the meter and the gate. Everything else in this folder is private to it.
#pragma once

#include "guest/abi/cuda.hpp"

namespace headgate::limiter {

// After the session opened and the first context exists. Starts the settler thread (signals blocked) once a process.
void compute_start();

// Before cuCtxDestroy / cuDevicePrimaryCtxReset / Release is forwarded: the context's brackets and events are dropped.
void compute_forget_context(abi::CUcontext context);

// In a forked child: no threads, no brackets, no credit.
void compute_reset_after_fork();

}  // namespace headgate::limiter
