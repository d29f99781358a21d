// Helpers for the calls that add or query a node.
#pragma once

#include "sim/driver/graph/graph.hpp"

namespace headgate::sim::driver {

// Adds a node; `make` fills in its work.
template <typename Make>
CUresult add_to_graph(CUgraphNode* out, CUgraph handle, const CUgraphNode* behind, const EdgeData* data,
                      std::size_t count, NodeType type, const Make& make) {
  Graph* graph = nullptr;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(graph_of(handle, &graph));
  std::vector<Dependency> dependencies;
  SIM_TRY(dependencies_of(graph, behind, data, count, &dependencies));
  Work work;
  SIM_TRY(make(&work));
  GraphNode* node = nullptr;
  SIM_TRY(add_node(graph, type, std::move(work), dependencies, &node));
  *out = handle_of(node);
  return CUDA_SUCCESS;
}

inline CUresult node_of_type(CUgraphNode handle, NodeType type, GraphNode** out) {
  SIM_TRY(node_of(handle, out));
  return (*out)->type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

template <typename T, typename Read>
CUresult ask_node(CUgraphNode handle, NodeType type, T* out, const Read& read) {
  GraphNode* node = nullptr;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(node_of_type(handle, type, &node));
  *out = read(node->work);
  return CUDA_SUCCESS;
}

}  // namespace headgate::sim::driver
