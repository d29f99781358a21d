// Executable graphs: instantiation, updates, destruction.
#include <algorithm>
#include <queue>

#include "sim/driver/graph/capture.hpp"
#include "sim/driver/graph/graph_conditional.hpp"
#include "sim/driver/graph/graph_memory.hpp"
namespace headgate::sim::driver {
namespace {

// Sorts nodes by order of creation, as far as the edges allow.
std::vector<const GraphNode*> sorted(const Graph* graph) {
  std::map<const GraphNode*, std::size_t> place;
  for (std::size_t i = 0; i < graph->nodes.size(); ++i) place[graph->nodes[i]] = i;
  std::vector<std::vector<std::size_t>> after(graph->nodes.size());
  std::vector<std::size_t> missing(graph->nodes.size());
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < graph->nodes.size(); ++i) {
    missing[i] = graph->nodes[i]->from.size();
    for (const Dependency& one : graph->nodes[i]->from) after[place[one.node]].push_back(i);
    if (missing[i] == 0) ready.push(i);
  }
  std::vector<const GraphNode*> order;
  while (!ready.empty()) {
    const std::size_t i = ready.top();
    ready.pop();
    order.push_back(graph->nodes[i]);
    for (const std::size_t next : after[i])
      if (--missing[next] == 0) ready.push(next);
  }
  return order;
}

// Allows only the node types that cuda.h permits in a body.
CUresult flatten_bodies(const ConditionalWork& chooses, std::vector<std::vector<ExecNode>>* out) {
  for (const Graph* body : chooses.bodies) {
    std::vector<ExecNode>& nodes = out->emplace_back();
    SIM_TRY(flatten(body, &nodes));
    for (const ExecNode& node : nodes) {
      const bool allowed = node.type <= NodeType::fill || node.type == NodeType::child ||
                           node.type == NodeType::empty || node.type == NodeType::conditional;
      const Context* context = context_of(node.work);
      if (!allowed || (context != nullptr && context != chooses.conditional->context)) return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CUresult flatten_into(const Graph* graph, const std::vector<FlatEdge>& before, std::vector<ExecNode>* out) {
  std::map<const GraphNode*, std::uint32_t> place;  // node -> index of the node that its successors wait for
  for (const GraphNode* node : sorted(graph)) {
    std::vector<FlatEdge> from = node->from.empty() ? before : std::vector<FlatEdge>{};
    for (const Dependency& one : node->from) from.push_back({place[one.node], one.data});
    if (node->type == NodeType::kernel && context_of(node->work) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto at = static_cast<std::uint32_t>(out->size());
    ExecNode& made = out->emplace_back();
    made.key = node;
    made.type = node->type;
    made.from = std::move(from);
    place[node] = at;
    const auto* child = std::get_if<ChildWork>(&node->work);
    if (child == nullptr) {
      made.work = node->work;
      if (const auto* chooses = std::get_if<ConditionalWork>(&node->work)) {
        std::vector<std::vector<ExecNode>> bodies;
        SIM_TRY(flatten_bodies(*chooses, &bodies));
        made.bodies = std::move(bodies);
      }
      continue;
    }
    SIM_TRY(flatten_into(child->graph, {{at, {}}}, out));
    std::vector<bool> followed(out->size());
    for (std::size_t i = at; i < out->size(); ++i)
      for (const FlatEdge& edge : (*out)[i].from) followed[edge.node] = true;
    ExecNode exit;
    for (std::uint32_t i = at; i < out->size(); ++i)
      if (!followed[i]) exit.from.push_back({i, {}});
    place[node] = static_cast<std::uint32_t>(out->size());
    out->push_back(std::move(exit));
  }
  return CUDA_SUCCESS;
}

enum Update : unsigned {  // CUgraphExecUpdateResult
  kUpdated = 0,
  kTopologyChanged = 2,
  kTypeChanged = 3,
  kParametersChanged = 5,
  kNotSupported = 6,
  kUnsupportedFunctionChange = 7,
};

// Tells if an update may replace one node's work with another's without a new instantiation.
Update may_replace(const Work& now, const Work& next) {
  if (std::holds_alternative<KernelWork>(now))
    return context_of(now) == context_of(next) ? kUpdated : kUnsupportedFunctionChange;
  if (const auto* made = std::get_if<AllocateWork>(&now))
    return made->memory == std::get<AllocateWork>(next).memory ? kUpdated : kNotSupported;
  if (const auto* freed = std::get_if<FreeWork>(&now))
    return freed->memory == std::get<FreeWork>(next).memory ? kUpdated : kNotSupported;
  if (const auto* chooses = std::get_if<ConditionalWork>(&now))
    return chooses->conditional == std::get<ConditionalWork>(next).conditional ? kUpdated : kNotSupported;
  Prepared before, after;
  if (std::holds_alternative<CopyWork>(now) && prepare(now, &before) == CUDA_SUCCESS &&
      (prepare(next, &after) != CUDA_SUCCESS || before.command.kind != after.command.kind))
    return kParametersChanged;
  return context_of(now) == context_of(next) ? kUpdated : kParametersChanged;
}

// `first`: index in the executable graph at which the new nodes begin.
Update compare(std::span<const ExecNode> now, const std::vector<ExecNode>& next, std::uint32_t first,
               const GraphNode** where) {
  *where = nullptr;
  if (now.size() != next.size()) return kTopologyChanged;
  for (std::size_t i = 0; i < now.size(); ++i) {
    *where = next[i].key;
    std::vector<FlatEdge> edges = next[i].from;
    for (FlatEdge& edge : edges) edge.node += first;
    // Roots of a child graph depend on its entry, which is not among the child's nodes.
    if (first != 0 && edges.empty()) edges = {{first - 1, {}}};
    if (now[i].from != edges) return kTopologyChanged;
    if (now[i].type != next[i].type) return kTypeChanged;
    if (const Update why = may_replace(now[i].work, next[i].work); why != kUpdated) return why;
  }
  return kUpdated;
}

CUresult instantiate(CUgraphExec* out, CUgraph handle, cuuint64_t flags) {
  if (!out || flags > 15) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Graph, graph, resolve(handle, &graph));
  if ((flags & 4) != 0) return CUDA_ERROR_NOT_SUPPORTED;  // launch from the device
  if (graph->moved) return CUDA_ERROR_INVALID_VALUE;
  const bool unique = is_unique(graph);
  if (unique && !graph->instance.expired()) return CUDA_ERROR_NOT_SUPPORTED;
  SIM_TRY(conditionals_complete(graph));
  std::vector<ExecNode> nodes;
  SIM_TRY(flatten(graph, &nodes));
  Exec* exec = recycled<Exec>().take();
  exec->nodes = std::move(nodes);
  exec->flags = flags;
  exec->last_stream = 0;
  exec->last = nullptr;
  exec->conditions.clear();
  if (const CUresult made = make_lanes(exec); made != CUDA_SUCCESS) {
    end_lanes(exec);
    recycled<Exec>().give(exec);
    return made;
  }
  exec->made_of = clone_graph(graph);
  for (const ExecNode& node : exec->nodes) {
    if (const auto* made = std::get_if<AllocateWork>(&node.work)) exec->allocates.push_back(made->memory);
    if (const auto* freed = std::get_if<FreeWork>(&node.work)) exec->frees.push_back(freed->memory);
  }
  if (unique) graph->instance = exec->instance = std::make_shared<int>();
  exec->publish();
  alive<Exec>().add(exec);
  return give(out, exec);
}

CUresult update(CUgraphExec handle, CUgraph graph_handle, UpdateResultInfo* info) {
  SIM_GET(Exec, exec, resolve(handle, &exec));
  SIM_GET(Graph, graph, resolve(graph_handle, &graph));
  std::vector<ExecNode> next;
  SIM_TRY(flatten(graph, &next));
  const std::lock_guard guard(exec->lock);
  const GraphNode* where = nullptr;
  const Update result = compare(exec->nodes, next, 0, &where);
  *info = {result, result == kUpdated ? nullptr : handle_of(const_cast<GraphNode*>(where)), nullptr};
  if (result != kUpdated) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  for (std::size_t i = 0; i < next.size(); ++i) {
    exec->nodes[i].work = std::move(next[i].work);
    exec->nodes[i].bodies = std::move(next[i].bodies);
  }
  outlive_launch(exec->made_of, exec->last, exec->last_stream);
  end_graph(exec->made_of);
  exec->made_of = clone_graph(graph);
  return CUDA_SUCCESS;
}

CUresult exec_node(CUgraphExec handle, CUgraphNode node_handle, Exec** exec, ExecNode** out) {
  SIM_TRY(resolve(handle, exec));
  SIM_GET(GraphNode, node, resolve(node_handle, &node));
  const auto found =
      std::ranges::find((*exec)->nodes, node, [](const ExecNode& one) { return const_cast<GraphNode*>(one.key); });
  if (found == (*exec)->nodes.end()) return CUDA_ERROR_INVALID_VALUE;
  return give(out, &*found);
}

template <typename Make>
CUresult set(CUgraphExec handle, CUgraphNode node, NodeType type, const Make& make) {
  ExecNode* found = nullptr;
  SIM_GET(Exec, exec, exec_node(handle, node, &exec, &found));
  if (found->type != type) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  SIM_TRY(make(&work));
  const std::lock_guard guard(exec->lock);
  if (may_replace(found->work, work) != kUpdated) return CUDA_ERROR_INVALID_VALUE;
  if (auto* kernel = std::get_if<KernelWork>(&work)) kernel->attributes = std::get<KernelWork>(found->work).attributes;
  found->work = std::move(work);
  return CUDA_SUCCESS;
}

CUresult set_child(CUgraphExec handle, CUgraphNode node, CUgraph graph_handle) {
  ExecNode* found = nullptr;
  SIM_GET(Exec, exec, exec_node(handle, node, &exec, &found));
  SIM_GET(Graph, graph, resolve(graph_handle, &graph));
  if (found->type != NodeType::child) return CUDA_ERROR_INVALID_VALUE;
  std::vector<ExecNode> next;
  SIM_TRY(flatten(graph, &next));
  const std::lock_guard guard(exec->lock);
  const auto first = static_cast<std::size_t>(found - exec->nodes.data()) + 1;
  if (first + next.size() > exec->nodes.size()) return CUDA_ERROR_INVALID_VALUE;
  const auto now = std::span(exec->nodes).subspan(first, next.size());
  // The next node must be the child graph's exit, which has no key.
  if (exec->nodes[first + next.size()].key != nullptr) return CUDA_ERROR_INVALID_VALUE;
  const GraphNode* where = nullptr;
  if (compare(now, next, static_cast<std::uint32_t>(first), &where) != kUpdated) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < next.size(); ++i) now[i].work = std::move(next[i].work);
  return CUDA_SUCCESS;
}

CUresult upload(CUgraphExec handle, CUstream stream_handle, bool per_thread) {
  SIM_GET(Exec, exec, resolve(handle, &exec));
  SIM_GET(Stream, stream, stream_of(stream_handle, per_thread, &stream));
  if (is_capturing(stream)) return break_capture(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  const std::lock_guard guard(exec->lock);
  return upload_graph_bytes(*exec, stream);
}

CUresult instantiate_with(CUgraphExec* out, CUgraph graph, InstantiateParams* params, bool per_thread) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  params->error_node = nullptr;
  params->result = 1;
  const CUresult made = instantiate(out, graph, params->flags);
  if (made != CUDA_SUCCESS) return made;
  params->result = 0;
  return (params->flags & 2) != 0 ? upload(*out, params->upload_stream, per_thread) : CUDA_SUCCESS;
}

CUresult instantiate_old(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char* log, std::size_t log_bytes) {
  if (error_node) *error_node = nullptr;
  if (log && log_bytes != 0) *log = 0;
  return instantiate(out, graph, 0);
}

}  // namespace

CUresult flatten(const Graph* graph, std::vector<ExecNode>* out) { return flatten_into(graph, {}, out); }

void forget_graphs(Context* context) {
  const std::lock_guard guard(alive<Exec>().lock);
  for (Exec* exec : alive<Exec>().all) {
    const auto here = [context](const Lane& lane) { return lane.context == context; };
    if (std::ranges::any_of(exec->lanes, here)) end_lanes(exec);
  }
  forget_idle_lanes(context);
}

SIM_CALL(cuGraphInstantiate, (CUgraphExec * out, CUgraph graph, CUgraphNode* error, char* log, std::size_t bytes),
         instantiate_old(out, graph, error, log, bytes))
SIM_CALL(cuGraphInstantiate_v2, (CUgraphExec * out, CUgraph graph, CUgraphNode* error, char* log, std::size_t bytes),
         instantiate_old(out, graph, error, log, bytes))
SIM_CALL(cuGraphInstantiateWithFlags, (CUgraphExec * out, CUgraph graph, unsigned long long flags),
         (flags & 2) != 0 ? CUDA_ERROR_INVALID_VALUE : instantiate(out, graph, flags))
SIM_CALL_PTSZ(cuGraphInstantiateWithParams, (CUgraphExec * out, CUgraph graph, InstantiateParams* params),
              instantiate_with(out, graph, params, per_thread))
SIM_API CUresult cuGraphExecDestroy(CUgraphExec handle) {
  SIM_ENTER(cuGraphExecDestroy);
  SIM_GET(Exec, exec, resolve(handle, &exec));
  (void)alive<Exec>().remove(exec);
  const std::lock_guard guard(exec->lock);
  exec->retire();
  end_lanes(exec);
  exec->nodes.clear();
  exec->allocates.clear();
  exec->frees.clear();
  exec->instance.reset();
  outlive_launch(exec->made_of, exec->last, exec->last_stream);
  end_graph(exec->made_of);
  recycled<Exec>().give(exec);
  return CUDA_SUCCESS;
}
SIM_TELL(cuGraphExecGetFlags, (CUgraphExec handle, cuuint64_t* flags), flags, Exec, exec, resolve(handle, &exec),
         exec->flags)
SIM_API CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* error, unsigned* result) {
  SIM_ENTER(cuGraphExecUpdate);
  UpdateResultInfo info{1, nullptr, nullptr};
  const CUresult answer = update(exec, graph, &info);
  if (error) *error = info.error_node;
  if (result) *result = info.result;
  return answer;
}
SIM_API CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, UpdateResultInfo* info) {
  SIM_ENTER(cuGraphExecUpdate_v2, info);
  *info = {1, nullptr, nullptr};
  return update(exec, graph, info);
}
SIM_CALL(cuGraphExecKernelNodeSetParams, (CUgraphExec exec, CUgraphNode node, const KernelNodeParamsV1* given),
         set(exec, node, NodeType::kernel, [&](Work* work) { return kernel_work(given, work); }))
SIM_CALL(cuGraphExecKernelNodeSetParams_v2, (CUgraphExec exec, CUgraphNode node, const KernelNodeParams* given),
         set(exec, node, NodeType::kernel, [&](Work* work) { return kernel_work(given, work); }))
SIM_CALL(cuGraphExecMemcpyNodeSetParams,
         (CUgraphExec exec, CUgraphNode node, const CopyParams* given, CUcontext context),
         set(exec, node, NodeType::copy, [&](Work* work) { return copy_work(given, context, work); }))
SIM_CALL(cuGraphExecMemsetNodeSetParams,
         (CUgraphExec exec, CUgraphNode node, const FillNodeParams* given, CUcontext context),
         set(exec, node, NodeType::fill, [&](Work* work) { return fill_work(given, context, work); }))
SIM_CALL(cuGraphExecHostNodeSetParams, (CUgraphExec exec, CUgraphNode node, const HostNodeParams* given),
         set(exec, node, NodeType::host, [&](Work* work) { return host_work(given, work); }))
SIM_CALL(cuGraphExecChildGraphNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraph graph),
         set_child(exec, node, graph))
SIM_CALL(cuGraphExecEventRecordNodeSetEvent, (CUgraphExec exec, CUgraphNode node, CUevent event),
         set(exec, node, NodeType::record_event, [&](Work* work) { return event_work(event, work); }))
SIM_CALL(cuGraphExecEventWaitNodeSetEvent, (CUgraphExec exec, CUgraphNode node, CUevent event),
         set(exec, node, NodeType::wait_event, [&](Work* work) { return event_work(event, work); }))
SIM_CALL(cuGraphExecBatchMemOpNodeSetParams, (CUgraphExec exec, CUgraphNode node, const BatchNodeParams* given),
         set(exec, node, NodeType::batch, [&](Work* work) { return batch_work(given, work); }))
SIM_API CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, AnyNodeParams* params) {
  SIM_ENTER(cuGraphExecNodeSetParams, params);
  if (params->type == NodeType::child) return set_child(exec, node, params->child.graph);
  return set(exec, node, params->type, [&](Work* work) { return any_work(*params, work); });
}
SIM_API CUresult cuGraphNodeSetEnabled(CUgraphExec handle, CUgraphNode node, unsigned enabled) {
  SIM_ENTER(cuGraphNodeSetEnabled);
  ExecNode* found = nullptr;
  SIM_GET(Exec, exec, exec_node(handle, node, &exec, &found));
  if (found->type > NodeType::fill) return CUDA_ERROR_INVALID_VALUE;  // kernels, copies and fills only
  found->enabled = enabled != 0;
  return CUDA_SUCCESS;
}
SIM_API CUresult cuGraphNodeGetEnabled(CUgraphExec handle, CUgraphNode node, unsigned* enabled) {
  SIM_ENTER(cuGraphNodeGetEnabled, enabled);
  ExecNode* found = nullptr;
  SIM_GET(Exec, exec, exec_node(handle, node, &exec, &found));
  if (found->type > NodeType::fill) return CUDA_ERROR_INVALID_VALUE;
  return give(enabled, found->enabled ? 1 : 0);
}

SIM_CALL_PTSZ(cuGraphUpload, (CUgraphExec exec, CUstream stream), upload(exec, stream, per_thread))
SIM_CALL_PTSZ(cuGraphLaunch, (CUgraphExec exec, CUstream stream), launch_exec(exec, stream, per_thread))

}  // namespace headgate::sim::driver
