#include "sim/driver/context/green_context.hpp"

#include "sim/driver/graph/capture.hpp"
#include "sim/driver/stream/payload.hpp"

namespace headgate::sim::driver {
namespace {

std::vector<Stream*> streams_of(Context* context, const GreenContext* green) {
  const std::lock_guard guard(context->lock);
  std::vector<Stream*> all = context->streams;
  std::erase_if(all, [green](const Stream* stream) { return green != nullptr && stream->green != green; });
  return all;
}

CUresult wait(Stream* stream, std::uint32_t event) {
  Command command = event_wait(library().state(), event, 0);
  return command.amount == 0 ? CUDA_SUCCESS : submit(stream, command);
}

CUresult record(Stream* stream, std::uint32_t event) {
  const std::lock_guard guard(stream->context->lock);
  Command command = event_record(library().state(), event, stream->index, 0);
  return submit_locked(stream, command);
}

// Makes the collecting stream wait for `from`, through a temporary event.
CUresult follow(Stream* collector, Stream* from) {
  Node& node = *library().node;
  const std::uint32_t event = Node::Locked(node)->create_event(node.process(), from->context->node_device);
  if (event == kNone) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult done = record(from, event);
  if (done == CUDA_SUCCESS) done = wait(collector, event);
  // A wait treats a destroyed event as completed. The event's cell is therefore freed only after the event completed.
  Node::Locked(node)->destroy_event(event);
  return done;
}

CUresult allowed(Context* context, CUevent handle, Event** event) {
  SIM_TRY(event_of(handle, event));
  return context_allowed(context);
}

}  // namespace

CUresult record_context(Context* context, const GreenContext* green, CUevent handle) {
  SIM_GET(Event, event, allowed(context, handle, &event));
  if (event->context != context || event->imported) return CUDA_ERROR_INVALID_HANDLE;
  SIM_GET(Stream, collector,
          make_stream(context, StreamKind::non_blocking, CU_STREAM_NON_BLOCKING, 0, &collector, nullptr));
  CUresult done = CUDA_SUCCESS;
  for (Stream* stream : streams_of(context, green)) {
    if (done == CUDA_SUCCESS && stream != collector && !stream_idle(stream)) done = follow(collector, stream);
  }
  event->captured_in.store(0, std::memory_order_release);
  if (done == CUDA_SUCCESS) done = record(collector, event->index);
  const CUresult ended = end_stream(collector);
  return done == CUDA_SUCCESS ? ended : done;
}

CUresult context_waits(Context* context, const GreenContext* green, CUevent handle) {
  SIM_GET(Event, event, allowed(context, handle, &event));
  if (event->captured_in.load(std::memory_order_acquire) != 0) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  for (Stream* stream : streams_of(context, green)) SIM_TRY(wait(stream, event->index));
  return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxRecordEvent(CUcontext handle, CUevent event) {
  SIM_ENTER(cuCtxRecordEvent);
  SIM_GET(Context, context, context_or_current(handle, &context));
  return record_context(context, handle ? object<Context>(handle)->green : current_green(), event);
}
SIM_API CUresult cuCtxWaitEvent(CUcontext handle, CUevent event) {
  SIM_ENTER(cuCtxWaitEvent);
  SIM_GET(Context, context, context_or_current(handle, &context));
  return context_waits(context, handle ? object<Context>(handle)->green : current_green(), event);
}

}  // namespace headgate::sim::driver
