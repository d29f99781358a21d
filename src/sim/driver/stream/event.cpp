// Events.
#include "sim/driver/library.hpp"

#include "sim/driver/graph/capture.hpp"
#include "sim/driver/memory/pool.hpp"
#include "sim/driver/stream/payload.hpp"

namespace headgate::sim::driver {

CUresult event_of(CUevent handle, Event** out) {
  SIM_TRY(resolve(handle, out));
  return health((*out)->context);
}

namespace {

// Returns true if the exporting process destroyed the event or died.
bool stale(const Event* event) {
  return event->imported && library().state().events[event->index].generation != event->generation;
}

void destroy_in_node(Event* event) {
  if (event->imported) return;
  Node::Advanced(*library().node)->destroy_event(event->index);
}

CUresult destroy(CUevent handle) {
  SIM_GET(Event, event, event_of(handle, &event));
  if (!alive<Event>().remove(event)) return CUDA_ERROR_INVALID_HANDLE;
  destroy_in_node(event);
  recycled<Event>().give(event);
  return CUDA_SUCCESS;
}

CUresult record(CUevent handle, CUstream stream_handle, bool per_thread, bool external = false) {
  SIM_GET(Event, event, event_of(handle, &event));
  SIM_GET(Stream, stream, stream_of(stream_handle, per_thread, &stream));
  if (event->context != stream->context || stale(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (is_capturing(stream)) return capture_record(stream, event, external);
  SIM_TRY(legacy_allowed(stream));
  event->captured_in.store(0, std::memory_order_release);
  count(counters(stream->context).records);
  // A process that sees the event must also see data copied before it, so a host function waits for the copies.
  if ((event->flags & CU_EVENT_INTERPROCESS) && payloads_pending())
    SIM_TRY(submit_host_function(stream, [](CUresult) {}));
  const std::lock_guard guard(stream->context->lock);
  Command command = event_record(library().state(), event->index, stream->index, 0);
  return submit_locked(stream, command);
}

CUresult wait(CUstream stream_handle, CUevent handle, unsigned flags, bool per_thread) {
  if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Event, event, event_of(handle, &event));
  SIM_GET(Stream, stream, stream_of(stream_handle, per_thread, &stream));
  if (stale(event)) return CUDA_SUCCESS;
  bool captured = false;
  const CUresult answer = capture_wait(stream, event, flags == 1, &captured);
  if (captured) return answer;
  SIM_TRY(legacy_allowed(stream));
  Command command = event_wait(library().state(), event->index, 0);
  if (command.amount == 0) return CUDA_SUCCESS;  // never recorded
  return submit(stream, command);
}

// Reads the event in the engine's last state; if it is not complete there, advances to now.
EventReading read_now(const Event* event) {
  if (stale(event)) return {.recorded = true, .complete = true};
  EventReading reading = read_event(library().state(), event->index);
  if (reading.complete) return reading;
  look_at_host_words();
  library().node->advance();
  return read_event(library().state(), event->index);
}

CUresult elapsed(float* milliseconds, CUevent start, CUevent end) {
  if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
  Event *from = nullptr, *to = nullptr;
  SIM_TRY(event_of(start, &from));
  SIM_TRY(event_of(end, &to));
  if (from->context != to->context || ((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING))
    return CUDA_ERROR_INVALID_HANDLE;
  count(counters(from->context).elapsed_times);
  if (from->captured_in.load() != 0 || to->captured_in.load() != 0) return CUDA_ERROR_CAPTURED_EVENT;
  const EventReading a = read_now(from), b = read_now(to);
  if (!a.recorded || !b.recorded) return CUDA_ERROR_INVALID_HANDLE;
  if (!a.complete || !b.complete) return CUDA_ERROR_NOT_READY;
  return give(milliseconds, static_cast<double>(static_cast<std::int64_t>(b.gpu_ns - a.gpu_ns)) * 1e-6);
}

}  // namespace

void forget_events(Context* context) {
  for (Event* event : alive<Event>().remove_of(context)) {
    destroy_in_node(event);
    recycled<Event>().give(event);
  }
}

CUevent list_event(Context* context, std::uint32_t index, unsigned flags, bool imported) {
  Event* event = recycled<Event>().take();
  event->index = index;
  event->generation = library().state().events[index].generation;
  event->context = context;
  event->flags = flags;
  event->imported = imported;
  event->captured_in.store(0, std::memory_order_relaxed);
  alive<Event>().add(event);
  event->publish();
  return reinterpret_cast<CUevent>(event);
}

SIM_API CUresult cuEventCreate(CUevent* out, unsigned flags) {
  SIM_ENTER(cuEventCreate);
  if (!out || flags > 7 || ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
    return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Context, context, current_context(&context));
  Node& node = *library().node;
  const std::uint32_t index = Node::Locked(node)->create_event(node.process(), context->node_device);
  if (index == kNone) return CUDA_ERROR_OUT_OF_MEMORY;
  return give(out, list_event(context, index, flags, false));
}
SIM_CALL(cuEventDestroy, (CUevent event), destroy(event))
SIM_CALL(cuEventDestroy_v2, (CUevent event), destroy(event))
SIM_CALL_PTSZ(cuEventRecord, (CUevent event, CUstream stream), record(event, stream, per_thread))
SIM_CALL_PTSZ(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags),
              flags > 1 ? CUDA_ERROR_INVALID_VALUE : record(event, stream, per_thread, flags == 1))
SIM_CALL_PTSZ(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags),
              wait(stream, event, flags, per_thread))
SIM_API CUresult cuEventQuery(CUevent handle) {
  SIM_ENTER(cuEventQuery);
  SIM_GET(Event, event, event_of(handle, &event));
  count(counters(event->context).event_queries);
  if (event->captured_in.load(std::memory_order_acquire) != 0) return CUDA_ERROR_CAPTURED_EVENT;
  const bool complete = read_now(event).complete;
  SIM_TRY(health(event->context));
  if (!complete) return CUDA_ERROR_NOT_READY;
  run_due_payloads();
  return CUDA_SUCCESS;
}
SIM_API CUresult cuEventSynchronize(CUevent handle) {
  SIM_ENTER(cuEventSynchronize);
  SIM_GET(Event, event, event_of(handle, &event));
  count(counters(event->context).synchronisations);
  if (event->captured_in.load(std::memory_order_acquire) != 0) return CUDA_ERROR_CAPTURED_EVENT;
  const EventCell& cell = library().state().events[event->index];
  while (!read_now(event).complete) {
    const std::uint32_t stream = cell.producer.load(std::memory_order_relaxed);
    const std::uint64_t number = cell.producer_number.load(std::memory_order_relaxed);
    library().node->wait_completed(stream, number, memory_flags_in_use() ? 1'000'000 : 25'000'000);
    SIM_TRY(health(event->context));
    run_due_payloads();
  }
  SIM_TRY(health(event->context));
  run_due_payloads();
  pools_synchronised();
  return CUDA_SUCCESS;
}
SIM_CALL(cuEventElapsedTime, (float* milliseconds, CUevent start, CUevent end), elapsed(milliseconds, start, end))
SIM_CALL(cuEventElapsedTime_v2, (float* milliseconds, CUevent start, CUevent end), elapsed(milliseconds, start, end))

}  // namespace headgate::sim::driver
