// Events of a whole context: recorded behind all that its streams hold, waited for before all that they are given.
#pragma once

#include "sim/driver/context/green_context.hpp"

namespace headgate::sim::driver {

// `green`: of its streams alone; null: of all. INVALID_HANDLE for an event of another context;
// STREAM_CAPTURE_UNSUPPORTED while one of the context's streams captures, which breaks that capture.
CUresult record_context(Context* context, const GreenContext* green, CUevent event);
// Streams that are made later do not wait.
CUresult context_waits(Context* context, const GreenContext* green, CUevent event);

}  // namespace headgate::sim::driver
