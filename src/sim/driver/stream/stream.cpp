// Streams: handles, submission to their queues, waiting.
#include "sim/driver/library.hpp"

#include <algorithm>
#include <functional>

#include "sim/driver/context/green_context.hpp"
#include "sim/driver/graph/capture.hpp"
#include "sim/driver/memory/memory.hpp"
#include "sim/driver/memory/pool.hpp"
#include "sim/driver/stream/payload.hpp"
#include "sim/engine/clocks.hpp"

namespace headgate::sim::driver {

namespace {

// Per-thread default streams, by context id.
struct PerThread {
  std::uint64_t context_id;
  Stream* stream;
};
thread_local std::vector<PerThread> per_thread_streams;

CUresult per_thread_stream(Context* context, Stream** out) {
  for (const PerThread& known : per_thread_streams) {
    if (known.context_id == context->id) {
      return give(out, known.stream);
    }
  }
  SIM_TRY(make_stream(context, StreamKind::blocking, 0, 0, out));
  per_thread_streams.push_back({context->id, *out});
  return CUDA_SUCCESS;
}

// A launch into a full queue sleeps with the context's lock held. It waits for a batch of free places, because one
// wake-up per launch would be 50 per ms.
CUresult wait_for_room(Stream* stream) {
  constexpr std::uint64_t kBatch = 64, kLongestNs = 1'000'000;
  const std::uint64_t tail = pushed_to(stream);
  const std::uint64_t one = room_after(library().state(), stream->index);
  while (true) {
    if (library().node->wait_completed(stream->index, one, 25'000'000)) break;
    SIM_TRY(health(stream->context));
    look_at_host_words();
    run_due_payloads();
  }
  library().node->wait_completed(stream->index, std::min(one + kBatch - 1, tail), kLongestNs);
  return CUDA_SUCCESS;
}

Partition partition_of(const GreenContext* green) {
  if (green == nullptr) return {};
  return {static_cast<std::uint32_t>(green->id), green->set.count};
}

// Returns true if the stream's green context was destroyed.
bool orphaned(const Stream* stream) {
  return stream->green != nullptr && (!stream->green->valid() || stream->green->id != stream->green_id);
}

// A driver's launch, record or copy costs CPU time. Spends the profile's amount, if it has one.
void spend_host_time(std::uint64_t span_ns) {
  const std::uint64_t until = clock_ns() + span_ns;
  while (clock_ns() < until) {
  }
}

struct Target {
  Stream* stream;
  std::uint64_t number;
};

std::vector<Target> targets(Context* context, bool (*chosen)(const Stream*)) {
  std::vector<Target> found;
  const std::lock_guard guard(context->lock);
  for (Stream* stream : context->streams) {
    if (chosen(stream)) found.push_back({stream, pushed_to(stream)});
  }
  return found;
}

bool of_legacy(const Stream* stream) { return stream->kind != StreamKind::non_blocking; }
bool any(const Stream*) { return true; }

CUresult wait_targets(const std::vector<Target>& all) {
  for (const Target& target : all) SIM_TRY(wait_for(target.stream, target.number));
  pools_synchronised();
  return CUDA_SUCCESS;
}

CUresult create(CUstream* out, unsigned flags, int priority) {
  if (!out || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Context, context, current_context(&context));
  const StreamKind kind = flags == CU_STREAM_NON_BLOCKING ? StreamKind::non_blocking : StreamKind::blocking;
  SIM_GET(Stream, stream, make_stream(context, kind, flags, priority, &stream, current_green()));
  return give(out, stream);
}

CUresult query(CUstream handle, bool per_thread) {
  SIM_GET(Stream, stream, stream_of(handle, per_thread, &stream));
  count(counters(stream->context).stream_queries);
  if (is_capturing(stream)) return break_capture(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  SIM_TRY(legacy_allowed(stream));
  const bool idle = stream_idle(stream);
  SIM_TRY(health(stream->context));
  if (!idle) return CUDA_ERROR_NOT_READY;
  run_due_payloads();
  return CUDA_SUCCESS;
}

CUresult synchronize(CUstream handle, bool per_thread) {
  SIM_GET(Stream, stream, stream_of(handle, per_thread, &stream));
  count(counters(stream->context).synchronisations);
  if (is_capturing(stream)) return break_capture(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  SIM_TRY(legacy_allowed(stream));
  return wait_stream(stream);
}

template <typename T, typename Read>
CUresult tell(CUstream handle, bool per_thread, T* out, Read read, bool breaks_capture = false) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Stream, stream, stream_of(handle, per_thread, &stream));
  if (breaks_capture && is_capturing(stream)) return break_capture(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return give(out, std::invoke(read, stream));
}

CUcontext context_handle(Stream* stream) {
  return reinterpret_cast<CUcontext>(stream->green ? stream->green->view : stream->context);
}

CUresult get_context_v2(CUstream handle, bool per_thread, CUcontext* out, CUgreenCtx* green) {
  if (!out || !green) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Stream, stream, stream_of(handle, per_thread, &stream));
  *out = reinterpret_cast<CUcontext>(stream->context);
  return give(green, stream->green);
}

// Managed memory is accessible from every stream here, so attaching changes nothing.
CUresult attach(CUstream handle, bool per_thread) {
  Stream* stream = nullptr;
  return stream_of(handle, per_thread, &stream);
}

}  // namespace

std::uint64_t pushed_to(const Stream* stream) { return sim::pushed(library().state(), stream->index); }

CUresult make_stream(Context* context, StreamKind kind, unsigned flags, int priority, Stream** out,
                     GreenContext* green) {
  Library& lib = library();
  Stream* stream = recycled<Stream>().take();
  {
    Node::Advanced locked(*lib.node);
    const std::uint32_t slot = locked->next_stream_slot();
    stream->index = slot == kNone || !lib.node->back_stream(slot)
                        ? kNone
                        : locked->create_stream(context->index, kind, partition_of(green));
  }
  if (stream->index == kNone) {
    recycled<Stream>().give(stream);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  stream->context = context;
  stream->kind = kind;
  stream->flags = flags;
  stream->priority = std::clamp(priority, -5, 0);
  stream->id = lib.next_id.fetch_add(1);
  stream->green = green;
  stream->green_id = green == nullptr ? 0 : green->id;
  stream->capturing.store(false, std::memory_order_relaxed);
  stream->publish();
  const std::lock_guard guard(context->lock);
  context->streams.push_back(stream);
  return give(out, stream);
}

CUresult stream_of(CUstream handle, bool per_thread, Stream** out) {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value > 2) {
    Stream* stream = object<Stream>(handle);
    if (!stream || stream->context->word.load(std::memory_order_relaxed) != Context::kWord)
      return CUDA_ERROR_INVALID_HANDLE;
    SIM_TRY(health(stream->context));
    if (orphaned(stream)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return give(out, stream);
  }
  SIM_GET(Context, context, current_context(&context));
  if (GreenContext* green = current_green(); green != nullptr) {
    if (value == 2 || (value == 0 && per_thread)) return CUDA_ERROR_INVALID_HANDLE;
    return give(out, green->stream);
  }
  if (value == 2 || (value == 0 && per_thread)) return per_thread_stream(context, out);
  return give(out, context->legacy);
}

CUresult submit_locked(Stream* stream, Command& command, std::uint64_t* number) {
  // Capturable calls were captured before this point.
  if (is_capturing(stream)) return break_capture(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  SIM_TRY(legacy_allowed(stream));
  if (const std::uint64_t cost_ns = library().profile().host_launch_ns; cost_ns != 0) spend_host_time(cost_ns);
  return enqueue_locked(stream, command, number);
}

CUresult enqueue_locked(Stream* stream, Command& command, std::uint64_t* number, bool joins) {
  State& state = library().state();
  if (command.kind == CommandKind::kernel) touch_all_managed(stream->context);
  // The clock at launch applies until the kernel ends. A graph's command is launched often, so its own time is kept.
  const std::uint64_t at_top_clock = command.amount;
  if (command.kind == CommandKind::kernel)
    command.amount = clocked_ns(state.profile, state.nvml[stream->context->node_device], command.amount);
  command.order = ++stream->context->order;
  if (command.submit_ns == 0) command.submit_ns = clock_ns();
  std::uint64_t place = 0;
  while ((place = sim::push(state, stream->index, command, joins)) == 0) {
    SIM_TRY(wait_for_room(stream));
    command.submit_ns = clock_ns();
  }
  command.amount = at_top_clock;
  if (number != nullptr) *number = place;
  library().node->pushed();
  return CUDA_SUCCESS;
}

CUresult submit(Stream* stream, Command& command, std::uint64_t* number) {
  const std::lock_guard guard(stream->context->lock);
  return submit_locked(stream, command, number);
}

CUresult wait_for(Stream* stream, std::uint64_t number) {
  Node& node = *library().node;
  look_at_host_words();
  // Kernels may spin on words in memory, which change when we move data. Then look often.
  while (!node.wait_completed(stream->index, number, memory_flags_in_use() ? 1'000'000 : 25'000'000)) {
    SIM_TRY(health(stream->context));
    look_at_host_words();
    run_due_payloads();
  }
  run_due_payloads();
  return health(stream->context);
}

CUresult wait_stream(Stream* stream) {
  if (stream->kind == StreamKind::legacy) return wait_targets(targets(stream->context, of_legacy));
  return wait_targets({{stream, pushed_to(stream)}});
}

CUresult wait_context(Context* context) { return wait_targets(targets(context, any)); }

bool stream_idle(Stream* stream) {
  look_at_host_words();
  library().node->advance();
  const State& state = library().state();
  const auto idle = [&state](const Stream* one) {
    return std::atomic_ref(const_cast<std::uint64_t&>(state.streams[one->index].head))
               .load(std::memory_order_acquire) >= pushed_to(one);
  };
  if (stream->kind != StreamKind::legacy) return idle(stream);
  const std::lock_guard guard(stream->context->lock);
  return std::ranges::all_of(stream->context->streams, [&](const Stream* one) { return !of_legacy(one) || idle(one); });
}

CUresult end_stream(Stream* stream) {
  forget_capture(stream);
  if (payloads_pending()) SIM_TRY(wait_for(stream, pushed_to(stream)));
  {
    const std::lock_guard guard(stream->context->lock);
    std::erase(stream->context->streams, stream);
    stream->retire();
  }
  Node::Advanced(*library().node)->destroy_stream(stream->index);
  recycled<Stream>().give(stream);
  return CUDA_SUCCESS;
}

SIM_CALL(cuStreamCreate, (CUstream * out, unsigned flags), create(out, flags, 0))
SIM_CALL(cuStreamCreateWithPriority, (CUstream * out, unsigned flags, int priority), create(out, flags, priority))
SIM_API CUresult cuStreamDestroy_v2(CUstream handle) {
  SIM_ENTER(cuStreamDestroy_v2);
  Stream* stream = object<Stream>(handle);
  if (!stream || stream->context->word.load(std::memory_order_relaxed) != Context::kWord)
    return CUDA_ERROR_INVALID_HANDLE;
  SIM_TRY(health(stream->context));
  if (orphaned(stream)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return end_stream(stream);
}
// One entry with two names, so that tests catch code that identifies functions by address alone.
SIM_API CUresult cuStreamDestroy(CUstream stream) __attribute__((alias("cuStreamDestroy_v2")));

SIM_CALL_PTSZ(cuStreamQuery, (CUstream stream), query(stream, per_thread))
SIM_CALL_PTSZ(cuStreamSynchronize, (CUstream stream), synchronize(stream, per_thread))
// In every mode the queries of flags and id break the capture, as on the H200's driver 580 (headgate-gpu-facts,
// calls_beside_capture).
SIM_CALL_PTSZ(cuStreamGetFlags, (CUstream stream, unsigned* flags),
              tell(stream, per_thread, flags, &Stream::flags, true))
SIM_CALL_PTSZ(cuStreamGetPriority, (CUstream stream, int* priority),
              tell(stream, per_thread, priority, &Stream::priority))
SIM_CALL_PTSZ(cuStreamGetId, (CUstream stream, unsigned long long* id), tell(stream, per_thread, id, &Stream::id, true))
SIM_CALL_PTSZ(cuStreamGetDevice, (CUstream stream, CUdevice* device),
              tell(stream, per_thread, device, [](Stream* s) { return s->context->device; }))
SIM_CALL_PTSZ(cuStreamGetCtx, (CUstream stream, CUcontext* context), tell(stream, per_thread, context, context_handle))
SIM_CALL_PTSZ(cuStreamGetCtx_v2, (CUstream stream, CUcontext* context, CUgreenCtx* green),
              get_context_v2(stream, per_thread, context, green))

SIM_CALL_PTSZ(cuStreamAttachMemAsync, (CUstream stream, CUdeviceptr, std::size_t, unsigned), attach(stream, per_thread))

}  // namespace headgate::sim::driver
