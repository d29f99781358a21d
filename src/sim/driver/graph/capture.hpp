// Stream capture: turns calls into graph nodes, and refuses calls that are unsafe while a capture is open.
#pragma once

#include "sim/driver/graph/graph.hpp"
#include "sim/driver/memory/copy.hpp"

namespace headgate::sim::driver {

inline bool is_capturing(const Stream* stream) { return stream->capturing.load(std::memory_order_acquire); }

// For a call that cannot be captured: invalidates the stream's capture and returns the error.
CUresult break_capture(Stream* stream, CUresult answer);
// Called before work is sent to a stream. STREAM_CAPTURE_IMPLICIT for the legacy stream if a blocking stream captures.
CUresult legacy_allowed(const Stream* stream);
// Called before a wait for a whole context. STREAM_CAPTURE_UNSUPPORTED while one of its streams captures.
CUresult context_allowed(const Context* context);

// Each captures one call as a node after the stream's earlier ones. INVALIDATED if the capture is already broken.
CUresult capture_work(Stream* stream, NodeType type, Work work);
CUresult capture_copy(Stream* stream, const CopyParams& what);
CUresult capture_kernel(Stream* stream, Function* function, const Shape& shape, void** parameters, void** extra,
                        const CUlaunchConfig* config);
CUresult capture_record(Stream* stream, Event* event, bool external);
// Captures a wait. A stream that does not capture joins the capture in which the event was recorded. `handled` is false
// if neither the stream nor the event is part of a capture.
CUresult capture_wait(Stream* stream, Event* event, bool external, bool* handled);

// Drop the captures of a stream, or of a context, that is being destroyed.
void forget_capture(Stream* stream);
void forget_captures(const Context* context);

}  // namespace headgate::sim::driver
