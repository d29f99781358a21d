// Stream capture: calls that become nodes of a graph, and what may not be done meanwhile.
#pragma once

#include "sim/driver/graph/graph.hpp"
#include "sim/driver/memory/copy.hpp"

namespace headgate::sim::driver {

inline bool is_capturing(const Stream* stream) { return stream->capturing.load(std::memory_order_acquire); }

// Where a call cannot be captured, or must not be made: its answer, after the captures it breaks are invalidated.
CUresult break_capture(Stream* stream, CUresult answer);
// Before something is sent to a stream. STREAM_CAPTURE_IMPLICIT for the legacy stream while a blocking one captures.
CUresult legacy_allowed(const Stream* stream);
// Before all of a context is waited for. STREAM_CAPTURE_UNSUPPORTED while one of its streams captures.
CUresult context_allowed(const Context* context);

// One call each, as a node behind what the stream has captured. INVALIDATED where the capture is broken already.
CUresult capture_work(Stream* stream, NodeType type, Work work);
CUresult capture_copy(Stream* stream, const Copy3D& what);
CUresult capture_kernel(Stream* stream, Function* function, const Shape& shape, void** parameters, void** extra,
                        const CUlaunchConfig* config);
CUresult capture_record(Stream* stream, Event* event, bool external);
// Also where the stream does not capture and the event was recorded in a capture: then the stream joins. `handled` is
// false where neither concerns a capture.
CUresult capture_wait(Stream* stream, Event* event, bool external, bool* handled);

// The stream is destroyed; the context is.
void forget_capture(Stream* stream);
void forget_captures(const Context* context);

}  // namespace headgate::sim::driver
