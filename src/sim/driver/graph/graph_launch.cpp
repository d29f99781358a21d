// How an executable graph runs: each branch is a lane, a separate stream that starts after the launching stream and
// joins it at the end.
#include <algorithm>
#include <set>

#include "sim/driver/graph/capture.hpp"
#include "sim/driver/graph/graph_memory.hpp"
#include "sim/driver/stream/payload.hpp"

namespace headgate::sim::driver {
namespace {

// With more concurrent branches than this, a branch queues behind another.
constexpr std::uint32_t kMaxLanes = 32;

// Lanes of destroyed graphs, for reuse. A lane that still has work is not reused.
struct Idle {
  std::mutex lock;
  std::vector<Stream*> lanes;
};
Idle& idle() { return forever<Idle>(); }

CUresult take_lane(Context* context, Stream** out) {
  {
    const std::lock_guard guard(idle().lock);
    for (auto it = idle().lanes.begin(); it != idle().lanes.end(); ++it) {
      if ((*it)->context != context || !stream_idle(*it)) continue;
      *out = *it;
      idle().lanes.erase(it);
      return CUDA_SUCCESS;
    }
  }
  return make_stream(context, StreamKind::non_blocking, CU_STREAM_NON_BLOCKING, 0, out);
}

CUresult take_event(const Context* context, std::uint32_t* out) {
  Node& node = *library().node;
  *out = Node::Locked(node)->create_event(node.process(), context ? context->node_device : library().visible[0]);
  return *out == kNone ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

void give_event(std::uint32_t* event) {
  if (*event == kNone) return;
  Node::Advanced locked(*library().node);
  locked->destroy_event(*event);
  *event = kNone;
}

// Reuses the lane that ends in a node this one depends on, else creates one.
std::uint32_t choose_lane(Exec* exec, const ExecNode& node, std::vector<std::uint32_t>* tails, Context* context) {
  const auto fits = [&](const Lane& lane) { return !context || !lane.context || lane.context == context; };
  for (std::uint32_t lane = 0; lane < exec->lanes.size(); ++lane) {
    const auto is_tail = [&](const FlatEdge& edge) { return edge.node == (*tails)[lane]; };
    if (fits(exec->lanes[lane]) && std::ranges::any_of(node.from, is_tail)) return lane;
  }
  if (node.from.empty() && (*tails)[0] == kNone && fits(exec->lanes[0])) return 0;
  if (exec->lanes.size() >= kMaxLanes) {
    for (std::uint32_t i = 0; i < kMaxLanes; ++i) {
      const auto lane = static_cast<std::uint32_t>((exec->nodes.size() + i) % kMaxLanes);
      if (fits(exec->lanes[lane])) return lane;
    }
  }
  exec->lanes.push_back({context, nullptr, kNone});
  tails->push_back(kNone);
  return static_cast<std::uint32_t>(exec->lanes.size() - 1);
}

// All commands of a launch get one submit time, because its nodes arrive at once. They take one place in the queue,
// which the last of them occupies.
CUresult record(Stream* stream, std::uint32_t event, std::uint64_t submit_ns, bool joins = true) {
  Command command = event_record(library().state(), event, stream->index, submit_ns);
  return enqueue_locked(stream, command, nullptr, joins);
}

CUresult wait(Stream* stream, std::uint32_t event, std::uint64_t submit_ns) {
  Command command = event_wait(library().state(), event, submit_ns);
  return command.amount == 0 ? CUDA_SUCCESS : enqueue_locked(stream, command, nullptr, true);
}

CUresult send(Stream* stream, const ExecNode& node, std::vector<Prepared>& prepared, std::uint64_t submit_ns) {
  switch (node.type) {
    case NodeType::host: {
      const auto& host = std::get<HostNodeParams>(node.work);
      return submit_host_function_locked(stream, unless_failed([host] { host.function(host.data); }));
    }
    case NodeType::record_event: {
      Event* event = std::get<EventWork>(node.work).event;
      event->captured_in.store(0, std::memory_order_release);
      return record(stream, event->index, submit_ns);
    }
    case NodeType::wait_event: return wait(stream, std::get<EventWork>(node.work).event->index, submit_ns);
    default: break;
  }
  for (Prepared& one : prepared) {
    std::uint64_t number = 0;
    one.command.submit_ns = submit_ns;
    SIM_TRY(enqueue_locked(stream, one.command, &number, true));
    if (one.act) add_payload(stream, number, std::move(one.act));
  }
  return CUDA_SUCCESS;
}

// A graph's branches use the SMs of the stream that launches it.
void share_sms(const Stream* lane, const Stream* stream) {
  const Partition* partitions = library().state().partitions;
  if (partitions[lane->index].id == partitions[stream->index].id) return;
  Node::Locked(*library().node)->place_stream(lane->index, partitions[stream->index]);
}

CUresult send_all(Exec* exec, Stream* stream, std::vector<std::vector<Prepared>>& prepared) {
  const std::uint64_t now_ns = clock_ns();
  std::vector<Stream*> lanes;
  for (const Lane& lane : exec->lanes) lanes.push_back(lane.stream != nullptr ? lane.stream : stream);
  // Only one instance of the graph runs at a time, even if it is launched to a different stream than before.
  if (exec->last_stream != 0 && exec->last_stream != stream->id) SIM_TRY(wait(stream, exec->done, now_ns));
  const bool branches = std::ranges::any_of(lanes, [stream](const Stream* lane) { return lane != stream; });
  if (branches) SIM_TRY(record(stream, exec->fork, now_ns));
  for (Stream* lane : lanes) {
    if (lane == stream) continue;
    share_sms(lane, stream);
    SIM_TRY(wait(lane, exec->fork, now_ns));
  }
  for (std::size_t i = 0; i < exec->nodes.size(); ++i) {
    const ExecNode& node = exec->nodes[i];
    Stream* lane = lanes[node.lane];
    for (const std::uint32_t other : node.others) SIM_TRY(wait(lane, exec->nodes[other].event, now_ns));
    if (node.enabled) SIM_TRY(send(lane, node, prepared[i], now_ns));
    if (node.event != kNone) SIM_TRY(record(lane, node.event, now_ns));
  }
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i] == stream) continue;
    SIM_TRY(record(lanes[i], exec->lanes[i].end, now_ns));
    SIM_TRY(wait(stream, exec->lanes[i].end, now_ns));
  }
  SIM_TRY(record(stream, exec->done, now_ns, false));
  exec->last_stream = stream->id;
  exec->last = stream;
  return CUDA_SUCCESS;
}

CUresult send_locked(Exec* exec, Stream* stream, std::vector<std::vector<Prepared>>& prepared) {
  std::set<Context*> contexts = {stream->context};
  for (const Lane& lane : exec->lanes)
    if (lane.stream != nullptr) contexts.insert(lane.stream->context);
  // Lock in one global order, so that two launches cannot deadlock.
  std::vector<std::unique_lock<std::mutex>> locks;
  for (Context* context : contexts) locks.emplace_back(context->lock);
  return send_all(exec, stream, prepared);
}

}  // namespace

CUresult make_lanes(Exec* exec) {
  exec->lanes.assign(1, {});
  std::vector<std::uint32_t> tails(1, kNone);
  for (std::uint32_t i = 0; i < exec->nodes.size(); ++i) {
    ExecNode& node = exec->nodes[i];
    Context* context = context_of(node.work);
    node.lane = choose_lane(exec, node, &tails, context);
    Lane& lane = exec->lanes[node.lane];
    if (lane.context == nullptr) lane.context = context;
    node.overlaps =
        node.from.size() == 1 && node.from[0].data.type == kProgrammaticEdge && tails[node.lane] == node.from[0].node;
    for (const FlatEdge& edge : node.from) {
      ExecNode& before = exec->nodes[edge.node];
      if (before.lane == node.lane) continue;
      node.others.push_back(edge.node);
      if (before.event == kNone) SIM_TRY(take_event(lane.context, &before.event));
    }
    tails[node.lane] = i;
  }
  Context* any = exec->lanes[0].context;
  for (std::uint32_t i = 1; i < exec->lanes.size(); ++i) {
    Lane& lane = exec->lanes[i];
    if (lane.context == nullptr) lane.context = any;
    if (lane.context == nullptr) SIM_TRY(current_context(&lane.context));
    SIM_TRY(take_lane(lane.context, &lane.stream));
    SIM_TRY(take_event(lane.context, &lane.end));
  }
  SIM_TRY(take_event(any, &exec->fork));
  return take_event(any, &exec->done);
}

void end_lanes(Exec* exec) {
  for (ExecNode& node : exec->nodes) give_event(&node.event);
  for (Lane& lane : exec->lanes) {
    give_event(&lane.end);
    if (lane.stream == nullptr) continue;
    const std::lock_guard guard(idle().lock);
    idle().lanes.push_back(lane.stream);
  }
  exec->lanes.clear();
  give_event(&exec->fork);
  give_event(&exec->done);
}

void forget_idle_lanes(const Context* context) {
  const std::lock_guard guard(idle().lock);
  std::erase_if(idle().lanes, [context](const Stream* lane) { return lane->context == context; });
}

CUresult launch_exec(CUgraphExec handle, CUstream stream_handle, bool per_thread) {
  SIM_GET(Exec, exec, resolve(handle, &exec));
  SIM_GET(Stream, stream, stream_of(stream_handle, per_thread, &stream));
  const std::lock_guard guard(exec->lock);
  if (is_capturing(stream)) {
    if (is_unique(exec->made_of)) return break_capture(stream, CUDA_ERROR_NOT_SUPPORTED);
    ChildWork child{clone_graph(exec->made_of)};
    child.graph->owned = true;
    const CUresult captured = capture_work(stream, NodeType::child, child);
    if (captured != CUDA_SUCCESS) end_graph(child.graph);
    return captured;
  }
  SIM_TRY(legacy_allowed(stream));
  if (exec->lanes.empty()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  Lane& first = exec->lanes[0];
  if (first.context != nullptr && first.context != stream->context && first.stream == nullptr) {
    SIM_TRY(take_lane(first.context, &first.stream));
    SIM_TRY(take_event(first.context, &first.end));
  }
  std::vector<std::vector<Prepared>> prepared;
  SIM_TRY(unroll(exec, &prepared));
  SIM_TRY(take_graph_bytes(*exec, stream));
  count(counters(stream->context).launches);
  const CUresult sent = send_locked(exec, stream, prepared);
  give_graph_bytes(*exec, stream);
  return sent;
}

}  // namespace headgate::sim::driver
