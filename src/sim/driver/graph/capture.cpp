#include "sim/driver/graph/capture.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

namespace headgate::sim::driver {

std::atomic<unsigned> captures_open{0};

namespace {

using Set = std::vector<Dependency>;

struct Capture {
  std::uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  const void* thread = nullptr;  // the thread that began it
  Stream* origin = nullptr;
  Graph* graph = nullptr;
  bool into_program_graph = false;
  bool broken = false;
  std::map<Stream*, Set> streams;  // dependencies of each stream's next node
  std::map<Event*, Set> events;
  std::vector<CUgraphNode> told;  // returned by cuStreamGetCaptureInfo, valid until its next call
  std::vector<EdgeData> told_data;
};

struct Captures {
  std::mutex lock;
  std::vector<std::unique_ptr<Capture>> open;
};
Captures& captures() { return forever<Captures>(); }

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
const void* this_thread() { return &thread_mode; }

// The caller holds the lock, for this function and those down to unjoined().
Capture* find(Stream* stream) {
  for (const auto& capture : captures().open)
    if (capture->streams.contains(stream)) return capture.get();
  return nullptr;
}
Capture* find(std::uint64_t id) {
  const auto& open = captures().open;
  const auto found = std::ranges::find_if(open, [id](const auto& capture) { return capture->id == id; });
  return found == open.end() ? nullptr : found->get();
}

void end(Capture* capture) {
  for (const auto& [stream, set] : capture->streams) stream->capturing.store(false, std::memory_order_release);
  std::erase_if(captures().open, [capture](const auto& one) { return one.get() == capture; });
  captures_open.fetch_sub(1);
}

void drop(Capture* capture) {
  if (!capture->into_program_graph) end_graph(capture->graph);
  end(capture);
}

CUresult active(Stream* stream, Capture** out) {
  *out = find(stream);
  if (*out == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  return (*out)->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

void join_sets(Set* into, const Set& more) {
  for (const Dependency& one : more)
    if (std::ranges::find(*into, one.node, &Dependency::node) == into->end()) into->push_back(one);
}

// Returns the nodes of the set and all their ancestors.
std::set<const GraphNode*> before(const Set& set) {
  std::set<const GraphNode*> seen;
  std::vector<const GraphNode*> waiting;
  for (const Dependency& one : set) waiting.push_back(one.node);
  while (!waiting.empty()) {
    const GraphNode* node = waiting.back();
    waiting.pop_back();
    if (!seen.insert(node).second) continue;
    for (const Dependency& one : node->from) waiting.push_back(one.node);
  }
  return seen;
}

bool unjoined(const Capture& capture) {
  const auto joined = before(capture.streams.at(capture.origin));
  return std::ranges::any_of(capture.streams, [&](const auto& one) {
    return std::ranges::any_of(one.second, [&](const Dependency& last) { return !joined.contains(last.node); });
  });
}

bool unsafe(std::string_view name) {
  if (name.starts_with("cuMemcpy") || name.starts_with("cuMemset")) return name.find("Async") == std::string_view::npos;
  static constexpr std::string_view kUnsafe[] = {
      "cuMemAlloc_v2",     "cuMemAllocManaged",   "cuMemAllocPitch",  "cuMemAllocHost",      "cuMemHostAlloc",
      "cuMemHostRegister", "cuMemFree_v2",        "cuMemFreeHost",    "cuMemHostUnregister", "cuArrayCreate",
      "cuArray3DCreate",   "cuArrayDestroy",      "cuMipmappedArray", "cuEventQuery",        "cuEventSynchronize",
      "cuStreamQuery",     "cuStreamSynchronize", "cuCtxSynchronize", "cuModuleLoad",        "cuModuleUnload"};
  return std::ranges::any_of(kUnsafe, [name](std::string_view one) { return name.starts_with(one); });
}

CUresult begin(CUstream handle, bool per_thread, CUstreamCaptureMode mode, CUgraph into, const CUgraphNode* behind,
               const EdgeData* data, std::size_t count, bool to_graph) {
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Stream, stream, stream_of(handle, per_thread, &stream));
  Graph* graph = nullptr;
  Set set;
  if (to_graph) {
    SIM_TRY(resolve(into, &graph));
    SIM_TRY(dependencies_of(graph, behind, data, count, &set));
  }
  if (stream->kind == StreamKind::legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::lock_guard guard(captures().lock);
  if (find(stream) != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_unique<Capture>();
  capture->id = library().next_id.fetch_add(1);
  capture->mode = mode;
  capture->thread = this_thread();
  capture->origin = stream;
  capture->graph = to_graph ? graph : make_graph();
  capture->into_program_graph = to_graph;
  capture->streams[stream] = std::move(set);
  captures().open.push_back(std::move(capture));
  captures_open.fetch_add(1);
  stream->capturing.store(true, std::memory_order_release);
  return CUDA_SUCCESS;
}

CUresult end_capture(CUstream handle, bool per_thread, CUgraph* out) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Stream, stream, stream_of(handle, per_thread, &stream));
  const std::lock_guard guard(captures().lock);
  Capture* capture = find(stream);
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != this_thread())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  if (capture->origin != stream) {
    capture->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  *out = nullptr;
  if (capture->broken || unjoined(*capture)) {
    const CUresult why = capture->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    drop(capture);
    return why;
  }
  *out = reinterpret_cast<CUgraph>(capture->graph);
  end(capture);
  return CUDA_SUCCESS;
}

// Outputs of all variants of cuStreamGetCaptureInfo; null if the caller did not ask for one.
struct Asked {
  CUstreamCaptureStatus* status;
  cuuint64_t* id;
  CUgraph* graph = nullptr;
  const CUgraphNode** nodes = nullptr;
  const EdgeData** data = nullptr;
  std::size_t* count = nullptr;
  bool tells_data = false;
};

CUresult info(CUstream handle, bool per_thread, const Asked& asked) {
  if (!asked.status) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Stream, stream, stream_of(handle, per_thread, &stream));
  const std::lock_guard guard(captures().lock);
  if (stream->kind == StreamKind::legacy) {
    for (const auto& capture : captures().open)
      for (const auto& [one, set] : capture->streams)
        if (one->context == stream->context && one->kind == StreamKind::blocking)
          return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  Capture* capture = find(stream);
  *asked.status = capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
                  : capture->broken  ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                     : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (capture == nullptr || capture->broken) return CUDA_SUCCESS;
  if (asked.id) *asked.id = capture->id;
  if (asked.graph) *asked.graph = reinterpret_cast<CUgraph>(capture->graph);
  const Set& set = capture->streams[stream];
  if (asked.nodes && !asked.tells_data &&
      std::ranges::any_of(set, [](const Dependency& one) { return one.data != EdgeData{}; }))
    return CUDA_ERROR_LOSSY_QUERY;
  capture->told.clear();
  capture->told_data.clear();
  for (const Dependency& one : set) {
    capture->told.push_back(handle_of(one.node));
    capture->told_data.push_back(one.data);
  }
  if (asked.nodes) *asked.nodes = capture->told.data();
  if (asked.data) *asked.data = capture->told_data.data();
  if (asked.count) *asked.count = set.size();
  return CUDA_SUCCESS;
}

CUresult update(CUstream handle, bool per_thread, const CUgraphNode* nodes, const EdgeData* data, std::size_t count,
                unsigned flags) {
  if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Stream, stream, stream_of(handle, per_thread, &stream));
  const std::lock_guard guard(captures().lock);
  SIM_GET(Capture, capture, active(stream, &capture));
  Set more;
  SIM_TRY(dependencies_of(capture->graph, nodes, data, count, &more));
  if (flags == 1) capture->streams[stream].clear();
  join_sets(&capture->streams[stream], more);
  return CUDA_SUCCESS;
}

// Invalidates the captures in which that context's streams are (all of them, or those of one kind). Returns `answer` if
// there is one.
CUresult break_captures_of(const Context* context, std::optional<StreamKind> kind, CUresult answer) {
  if (captures_open.load(std::memory_order_relaxed) == 0) return CUDA_SUCCESS;
  const std::lock_guard guard(captures().lock);
  bool any = false;
  for (const auto& capture : captures().open)
    for (const auto& [stream, set] : capture->streams)
      if (stream->context == context && (!kind || stream->kind == *kind)) any = capture->broken = true;
  return any ? answer : CUDA_SUCCESS;
}

}  // namespace

// Refuses potentially unsafe calls as cuda.h describes under cuThreadExchangeStreamCaptureMode. A refused call
// invalidates the captures that forbid it.
CUresult forbidden_by_capture(const char* name) {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || !unsafe(name)) return CUDA_SUCCESS;
  const std::lock_guard guard(captures().lock);
  bool forbidden = false;
  for (const auto& capture : captures().open) {
    const bool mine = capture->thread == this_thread() && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool everybodys =
        capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!mine && !everybodys) continue;
    capture->broken = true;
    forbidden = true;
  }
  return forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult break_capture(Stream* stream, CUresult answer) {
  const std::lock_guard guard(captures().lock);
  Capture* capture = find(stream);
  if (capture == nullptr) return answer;
  if (capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  capture->broken = true;
  return answer;
}

CUresult legacy_allowed(const Stream* stream) {
  if (stream->kind != StreamKind::legacy) return CUDA_SUCCESS;
  return break_captures_of(stream->context, StreamKind::blocking, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

CUresult context_allowed(const Context* context) {
  return break_captures_of(context, std::nullopt, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CUresult capture_work(Stream* stream, NodeType type, Work work) {
  const std::lock_guard guard(captures().lock);
  SIM_GET(Capture, capture, active(stream, &capture));
  Set& set = capture->streams[stream];
  // Only kernels may have an edge that allows an early start (programmatic launch).
  if (type != NodeType::kernel)
    for (Dependency& one : set) one.data = {};
  SIM_GET(GraphNode, node, add_node(capture->graph, type, std::move(work), set, &node));
  set = {{node, {}}};
  return CUDA_SUCCESS;
}

CUresult capture_copy(Stream* stream, const CopyParams& what) {
  return capture_work(stream, NodeType::copy, CopyWork{what, stream->context});
}

CUresult capture_kernel(Stream* stream, Function* function, const Shape& shape, void** parameters, void** extra,
                        const CUlaunchConfig* config) {
  KernelWork work;
  SIM_TRY(captured_kernel(function, shape, parameters, extra, config, &work));
  const auto early = work.attributes.find(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  if (early != work.attributes.end()) {
    const bool overlaps = early->second[0] != 0;
    work.attributes.erase(early);  // a launch attribute only; in a graph it is an edge
    const std::lock_guard guard(captures().lock);
    SIM_GET(Capture, capture, active(stream, &capture));
    Set& set = capture->streams[stream];
    if (overlaps && set.size() == 1 && set[0].node->type == NodeType::kernel)
      set[0].data = {kProgrammaticPort, 0, kProgrammaticEdge, {}};
  }
  return capture_work(stream, NodeType::kernel, std::move(work));
}

CUresult capture_record(Stream* stream, Event* event, bool external) {
  if (external) return capture_work(stream, NodeType::record_event, EventWork{event});
  const std::lock_guard guard(captures().lock);
  SIM_GET(Capture, capture, active(stream, &capture));
  capture->events[event] = capture->streams[stream];
  event->captured_in.store(capture->id, std::memory_order_release);
  return CUDA_SUCCESS;
}

CUresult capture_wait(Stream* stream, Event* event, bool external, bool* handled) {
  const std::uint64_t recorded_in = event->captured_in.load(std::memory_order_acquire);
  *handled = is_capturing(stream) || recorded_in != 0;
  if (!*handled) return CUDA_SUCCESS;
  if (external && is_capturing(stream)) return capture_work(stream, NodeType::wait_event, EventWork{event});
  const std::lock_guard guard(captures().lock);
  Capture* mine = find(stream);
  Capture* other = recorded_in != 0 ? find(recorded_in) : nullptr;
  if (mine != nullptr && mine->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (other != nullptr && other->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (other == nullptr) {
    if (mine == nullptr) return CUDA_ERROR_CAPTURED_EVENT;  // the capture has ended
    mine->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (mine != nullptr && mine != other) {
    mine->broken = other->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (mine == nullptr && stream->kind == StreamKind::legacy) {
    other->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  join_sets(&other->streams[stream], other->events[event]);
  stream->capturing.store(true, std::memory_order_release);
  return CUDA_SUCCESS;
}

void forget_capture(Stream* stream) {
  if (!is_capturing(stream)) return;
  const std::lock_guard guard(captures().lock);
  Capture* capture = find(stream);
  if (capture == nullptr) return;
  if (capture->origin == stream) return drop(capture);
  capture->broken = true;
  capture->streams.erase(stream);
  stream->capturing.store(false, std::memory_order_release);
}

void forget_captures(const Context* context) {
  if (captures_open.load() == 0) return;
  const std::lock_guard guard(captures().lock);
  std::vector<Capture*> gone;
  for (const auto& capture : captures().open)
    if (capture->origin->context == context) gone.push_back(capture.get());
  for (Capture* capture : gone) drop(capture);
}

SIM_CALL_PTSZ(cuStreamBeginCapture, (CUstream stream),
              begin(stream, per_thread, CU_STREAM_CAPTURE_MODE_GLOBAL, nullptr, nullptr, nullptr, 0, false))
SIM_CALL_PTSZ(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode),
              begin(stream, per_thread, mode, nullptr, nullptr, nullptr, 0, false))
SIM_CALL_PTSZ(cuStreamBeginCaptureToGraph,
              (CUstream stream, CUgraph graph, const CUgraphNode* behind, const CUgraphEdgeData* data,
               std::size_t count, CUstreamCaptureMode mode),
              begin(stream, per_thread, mode, graph, behind, reinterpret_cast<const EdgeData*>(data), count, true))
SIM_CALL_PTSZ(cuStreamEndCapture, (CUstream stream, CUgraph* graph), end_capture(stream, per_thread, graph))
SIM_CALL_PTSZ(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus* status),
              info(stream, per_thread, {.status = status, .id = nullptr}))
SIM_CALL_PTSZ(cuStreamGetCaptureInfo, (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id),
              info(stream, per_thread, {.status = status, .id = id}))
SIM_CALL_PTSZ(cuStreamGetCaptureInfo_v2,
              (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
               const CUgraphNode** nodes, std::size_t* count),
              info(stream, per_thread, {.status = status, .id = id, .graph = graph, .nodes = nodes, .count = count}))
SIM_CALL_PTSZ(cuStreamGetCaptureInfo_v3,
              (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
               const CUgraphNode** nodes, const CUgraphEdgeData** data, std::size_t* count),
              info(stream, per_thread,
                   {.status = status,
                    .id = id,
                    .graph = graph,
                    .nodes = nodes,
                    .data = reinterpret_cast<const EdgeData**>(data),
                    .count = count,
                    .tells_data = data != nullptr}))
SIM_CALL_PTSZ(cuStreamUpdateCaptureDependencies,
              (CUstream stream, CUgraphNode* nodes, std::size_t count, unsigned flags),
              update(stream, per_thread, nodes, nullptr, count, flags))
SIM_CALL_PTSZ(cuStreamUpdateCaptureDependencies_v2,
              (CUstream stream, CUgraphNode* nodes, const CUgraphEdgeData* data, std::size_t count, unsigned flags),
              update(stream, per_thread, nodes, reinterpret_cast<const EdgeData*>(data), count, flags))

SIM_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  SIM_ENTER(cuThreadExchangeStreamCaptureMode);
  if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, thread_mode);
  return CUDA_SUCCESS;
}

}  // namespace headgate::sim::driver
