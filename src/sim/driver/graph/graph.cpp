// Graphs and their nodes: creation, edges, clones, destruction.
#include "sim/driver/graph/graph.hpp"

#include <algorithm>
#include <set>

#include "sim/driver/graph/graph_conditional.hpp"
#include "sim/driver/graph/graph_memory.hpp"
namespace headgate::sim::driver {

Graph* make_graph() {
  Graph* graph = recycled<Graph>().take();
  graph->nodes.clear();
  graph->cloned_from = nullptr;
  graph->owned = graph->moved = false;
  graph->parent = nullptr;
  graph->instance.reset();
  graph->publish();
  return graph;
}

namespace {

void end_node(GraphNode* node) {
  if (const auto* child = std::get_if<ChildWork>(&node->work)) end_graph(child->graph);
  if (const auto* chooses = std::get_if<ConditionalWork>(&node->work)) {
    for (Graph* body : chooses->bodies) end_graph(body);
  }
  memory_left(node->graph, node->work);
  node->work = std::monostate{};
  node->from.clear();
  recycled<GraphNode>().give(node);
}

bool allowed(const GraphNode* from, NodeType to, const EdgeData& data) {
  if (data.to_port != 0 || std::ranges::any_of(data.reserved, [](std::uint8_t byte) { return byte != 0; }))
    return false;
  if (data.type == 0) return data.from_port == 0;
  return data.type == kProgrammaticEdge &&
         (data.from_port == kProgrammaticPort || data.from_port == kLaunchOrderPort) &&
         from->type == NodeType::kernel && to == NodeType::kernel;
}

// The usual list protocol: if `out` is null, returns the count; else writes up to *count items and nulls the rest.
template <typename Handle, typename Item, typename Put>
CUresult give_list(const std::vector<Item>& items, Handle* out, std::size_t* count, const Put& put) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out == nullptr) {
    return give(count, items.size());
  }
  const std::size_t room = *count, given = std::min(room, items.size());
  for (std::size_t i = 0; i < given; ++i) put(i, items[i]);
  for (std::size_t i = given; i < room; ++i) out[i] = nullptr;
  return give(count, given);
}

struct Edge {
  GraphNode *from, *to;
  EdgeData data;
};

std::vector<Edge> edges_of(const Graph* graph) {
  std::vector<Edge> edges;
  for (GraphNode* node : graph->nodes)
    for (const Dependency& dependency : node->from) edges.push_back({dependency.node, node, dependency.data});
  return edges;
}

bool lossy(const std::vector<Edge>& edges) {
  return std::ranges::any_of(edges, [](const Edge& edge) { return edge.data != EdgeData{}; });
}

CUresult get_nodes(CUgraph handle, CUgraphNode* out, std::size_t* count, bool roots) {
  SIM_GET(Graph, graph, resolve(handle, &graph));
  std::vector<GraphNode*> nodes;
  for (GraphNode* node : graph->nodes)
    if (!roots || node->from.empty()) nodes.push_back(node);
  return give_list(nodes, out, count, [&](std::size_t i, GraphNode* node) { out[i] = handle_of(node); });
}

// `with_data`: the variant that can return edge data.
CUresult give_edges(const std::vector<Edge>& edges, CUgraphNode* from, CUgraphNode* to, EdgeData* data,
                    std::size_t* count) {
  CUgraphNode* any = from != nullptr ? from : to;
  if (any != nullptr && data == nullptr && lossy(edges)) return CUDA_ERROR_LOSSY_QUERY;
  if (data != nullptr && any == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t room = count != nullptr ? *count : 0;
  return give_list(edges, any, count, [&](std::size_t i, const Edge& edge) {
    if (from != nullptr) from[i] = handle_of(edge.from);
    if (to != nullptr) to[i] = handle_of(edge.to);
    if (data != nullptr && i < room) data[i] = edge.data;
  });
}

CUresult get_edges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, EdgeData* data, std::size_t* count) {
  SIM_GET(Graph, graph, resolve(handle, &graph));
  if ((from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  return give_edges(edges_of(graph), from, to, data, count);
}

CUresult get_neighbours(CUgraphNode handle, CUgraphNode* out, EdgeData* data, std::size_t* count, bool before) {
  SIM_GET(GraphNode, node, resolve(handle, &node));
  std::vector<Edge> edges = edges_of(node->graph);
  std::erase_if(edges, [&](const Edge& edge) { return (before ? edge.to : edge.from) != node; });
  return give_edges(edges, before ? out : nullptr, before ? nullptr : out, data, count);
}

// Returns true if `from` is `to` or comes after it.
bool comes_after(const GraphNode* from, const GraphNode* to) {
  std::vector<const GraphNode*> waiting = {from};
  std::set<const GraphNode*> seen = {from};
  while (!waiting.empty()) {
    const GraphNode* node = waiting.back();
    waiting.pop_back();
    if (node == to) return true;
    for (const Dependency& one : node->from)
      if (seen.insert(one.node).second) waiting.push_back(one.node);
  }
  return false;
}

CUresult change_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, const EdgeData* data,
                      std::size_t count, bool add) {
  SIM_GET(Graph, graph, resolve(handle, &graph));
  if (!add && is_unique(graph)) return CUDA_ERROR_NOT_SUPPORTED;
  std::vector<Dependency> sources, targets;
  SIM_TRY(dependencies_of(graph, from, data, count, &sources));
  SIM_TRY(dependencies_of(graph, to, nullptr, count, &targets));
  for (std::size_t i = 0; i < count; ++i) {
    const auto& from_now = targets[i].node->from;
    const auto known = std::ranges::find(from_now, sources[i].node, &Dependency::node);
    const bool there = known != from_now.end();
    if (add ? there || comes_after(sources[i].node, targets[i].node) ||
                  !allowed(sources[i].node, targets[i].node->type, sources[i].data)
            : !there || (data != nullptr && known->data != sources[i].data))
      return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (add) targets[i].node->from.push_back(sources[i]);
    else std::erase_if(targets[i].node->from, [&](const Dependency& one) { return one.node == sources[i].node; });
  }
  return CUDA_SUCCESS;
}

}  // namespace

void end_graph(Graph* graph) {
  for (GraphNode* node : graph->nodes) end_node(node);
  graph->nodes.clear();
  forget_handles(graph);
  release_objects(graph);
  recycled<Graph>().give(graph);
}

bool is_unique(const Graph* graph) {
  return std::ranges::any_of(graph->nodes, [](const GraphNode* node) {
    const auto* child = std::get_if<ChildWork>(&node->work);
    return node->type == NodeType::allocate || node->type == NodeType::free || node->type == NodeType::conditional ||
           (child != nullptr && is_unique(child->graph));
  });
}

void copy_graph(const Graph* from, Graph* to) {
  std::map<const GraphNode*, GraphNode*> twin;
  for (const GraphNode* node : from->nodes) {
    GraphNode* made = recycled<GraphNode>().take();
    made->graph = to;
    made->type = node->type;
    made->work = node->work;
    if (auto* child = std::get_if<ChildWork>(&made->work)) {
      child->graph = clone_graph(child->graph);
      child->graph->owned = true;
    }
    if (auto* chooses = std::get_if<ConditionalWork>(&made->work)) {
      for (Graph*& body : chooses->bodies) body = clone_graph(body);
    }
    made->cloned_from = node;
    made->from.clear();
    made->publish();
    to->nodes.push_back(made);
    twin[node] = made;
  }
  for (const GraphNode* node : from->nodes) {
    for (const Dependency& dependency : node->from)
      twin[node]->from.push_back({twin[dependency.node], dependency.data});
  }
}

Graph* clone_graph(const Graph* graph) {
  Graph* clone = make_graph();
  clone->cloned_from = graph;
  share_objects(graph, clone);
  copy_graph(graph, clone);
  return clone;
}

CUresult add_node(Graph* graph, NodeType type, Work work, const std::vector<Dependency>& behind, GraphNode** out) {
  for (std::size_t i = 0; i < behind.size(); ++i) {
    if (behind[i].node->graph != graph || !allowed(behind[i].node, type, behind[i].data))
      return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t j = 0; j < i; ++j)
      if (behind[i].node == behind[j].node) return CUDA_ERROR_INVALID_VALUE;
  }
  SIM_TRY(memory_may_join(graph, work));
  SIM_TRY(conditional_may_join(graph, work));
  memory_joined(graph, work);
  conditional_joined(graph, work);
  GraphNode* node = recycled<GraphNode>().take();
  node->graph = graph;
  node->type = type;
  node->work = std::move(work);
  node->from = behind;
  node->cloned_from = nullptr;
  node->publish();
  graph->nodes.push_back(node);
  return give(out, node);
}

CUresult dependencies_of(const Graph* graph, const CUgraphNode* nodes, const EdgeData* data, std::size_t count,
                         std::vector<Dependency>* out) {
  if (count != 0 && nodes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    Dependency one;
    SIM_TRY(resolve(nodes[i], &one.node));
    if (one.node->graph != graph) return CUDA_ERROR_INVALID_VALUE;
    if (data != nullptr) one.data = data[i];
    out->push_back(one);
  }
  return CUDA_SUCCESS;
}

SIM_CALL(cuGraphCreate, (CUgraph * out, unsigned flags),
         !out || flags != 0 ? CUDA_ERROR_INVALID_VALUE : give(out, make_graph()))
SIM_API CUresult cuGraphDestroy(CUgraph handle) {
  SIM_ENTER(cuGraphDestroy);
  SIM_GET(Graph, graph, resolve(handle, &graph));
  if (graph->owned) return CUDA_ERROR_INVALID_VALUE;
  end_graph(graph);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuGraphClone(CUgraph* out, CUgraph handle) {
  SIM_ENTER(cuGraphClone, out);
  SIM_GET(Graph, graph, resolve(handle, &graph));
  if (is_unique(graph)) return CUDA_ERROR_NOT_SUPPORTED;
  return give(out, clone_graph(graph));
}
SIM_API CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph clone_handle) {
  SIM_ENTER(cuGraphNodeFindInClone, out);
  SIM_GET(GraphNode, node, resolve(original, &node));
  SIM_GET(Graph, clone, resolve(clone_handle, &clone));
  const auto found = std::ranges::find(clone->nodes, node, &GraphNode::cloned_from);
  if (found == clone->nodes.end()) return CUDA_ERROR_INVALID_VALUE;
  return give(out, handle_of(*found));
}
SIM_API CUresult cuGraphDestroyNode(CUgraphNode handle) {
  SIM_ENTER(cuGraphDestroyNode);
  SIM_GET(GraphNode, node, resolve(handle, &node));
  if (is_unique(node->graph)) return CUDA_ERROR_NOT_SUPPORTED;
  for (GraphNode* other : node->graph->nodes)
    std::erase_if(other->from, [&](const Dependency& one) { return one.node == node; });
  std::erase(node->graph->nodes, node);
  end_node(node);
  return CUDA_SUCCESS;
}
SIM_CALL(cuGraphGetNodes, (CUgraph graph, CUgraphNode* nodes, std::size_t* count),
         get_nodes(graph, nodes, count, false))
SIM_CALL(cuGraphGetRootNodes, (CUgraph graph, CUgraphNode* nodes, std::size_t* count),
         get_nodes(graph, nodes, count, true))
SIM_CALL(cuGraphGetEdges, (CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count),
         get_edges(graph, from, to, nullptr, count))
SIM_CALL(cuGraphGetEdges_v2, (CUgraph graph, CUgraphNode* from, CUgraphNode* to, EdgeData* data, std::size_t* count),
         get_edges(graph, from, to, data, count))
SIM_CALL(cuGraphNodeGetDependencies, (CUgraphNode node, CUgraphNode* out, std::size_t* count),
         get_neighbours(node, out, nullptr, count, true))
SIM_CALL(cuGraphNodeGetDependencies_v2, (CUgraphNode node, CUgraphNode* out, EdgeData* data, std::size_t* count),
         get_neighbours(node, out, data, count, true))
SIM_CALL(cuGraphNodeGetDependentNodes, (CUgraphNode node, CUgraphNode* out, std::size_t* count),
         get_neighbours(node, out, nullptr, count, false))
SIM_CALL(cuGraphNodeGetDependentNodes_v2, (CUgraphNode node, CUgraphNode* out, EdgeData* data, std::size_t* count),
         get_neighbours(node, out, data, count, false))
SIM_CALL(cuGraphAddDependencies, (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, std::size_t count),
         change_edges(graph, from, to, nullptr, count, true))
SIM_CALL(cuGraphAddDependencies_v2,
         (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const EdgeData* data, std::size_t count),
         change_edges(graph, from, to, data, count, true))
SIM_CALL(cuGraphRemoveDependencies, (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, std::size_t count),
         change_edges(graph, from, to, nullptr, count, false))
SIM_CALL(cuGraphRemoveDependencies_v2,
         (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const EdgeData* data, std::size_t count),
         change_edges(graph, from, to, data, count, false))
SIM_TELL(cuGraphNodeGetType, (CUgraphNode handle, unsigned* type), type, GraphNode, node, resolve(handle, &node),
         static_cast<unsigned>(node->type))

}  // namespace headgate::sim::driver
