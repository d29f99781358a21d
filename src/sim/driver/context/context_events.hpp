// Events of a whole context: record waits for all work of its streams; wait delays all work submitted to them later.
#pragma once

#include "sim/driver/context/green_context.hpp"

namespace headgate::sim::driver {

// `green`: only that context's streams; null: all streams. INVALID_HANDLE for an event of another context;
// STREAM_CAPTURE_UNSUPPORTED while one of the context's streams captures, which breaks that capture.
CUresult record_context(Context* context, const GreenContext* green, CUevent event);
// Streams that are created later do not wait.
CUresult context_waits(Context* context, const GreenContext* green, CUevent event);

}  // namespace headgate::sim::driver
