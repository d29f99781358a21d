// Helpers for the calls that add or query a node.
#pragma once

#include "sim/driver/graph/graph.hpp"

namespace headgate::sim::driver {

// Adds a node; `make` fills in its work.
template <typename Make>
CUresult add_to_graph(CUgraphNode* out, CUgraph handle, const CUgraphNode* behind, const EdgeData* data,
                      std::size_t count, NodeType type, const Make& make) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Graph, graph, resolve(handle, &graph));
  std::vector<Dependency> dependencies;
  SIM_TRY(dependencies_of(graph, behind, data, count, &dependencies));
  Work work;
  SIM_TRY(make(&work));
  SIM_GET(GraphNode, node, add_node(graph, type, std::move(work), dependencies, &node));
  return give(out, handle_of(node));
}

inline CUresult node_of_type(CUgraphNode handle, NodeType type, GraphNode** out) {
  SIM_TRY(resolve(handle, out));
  return (*out)->type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

template <typename T, typename Read>
CUresult ask_node(CUgraphNode handle, NodeType type, T* out, const Read& read) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(GraphNode, node, node_of_type(handle, type, &node));
  return give(out, read(node->work));
}

template <typename T, typename OfType>
CUresult ask_node(CUgraphNode handle, NodeType type, T* out, T OfType::* member) {
  return ask_node(handle, type, out, [member](const Work& work) { return std::get<OfType>(work).*member; });
}

}  // namespace headgate::sim::driver
