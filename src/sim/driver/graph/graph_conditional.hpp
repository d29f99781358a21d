// Conditional nodes: kernels of the graph set a handle, which decides which body runs and how often.
//
// Kernels are not executed, so their pragmas say which values they set. The launch walks the nodes in order, evaluates
// the handles and sends the chosen bodies, one node after the other in one stream.
#pragma once

#include "sim/driver/graph/graph.hpp"

namespace headgate::sim::driver {

struct Conditional {
  cuuint64_t handle = 0;
  Graph* graph = nullptr;  // null once it is destroyed
  Context* context = nullptr;
  unsigned at_launch = 0;
  bool assigned_at_launch = false;
  bool has_node = false;
  unsigned type = 0;
  std::vector<CUgraph> told;  // body handles that the program received
};

// INVALID_VALUE unless the handle exists, is used by no node, and the other parameters fit it.
CUresult conditional_work(const ConditionalNodeParams& given, Work* out);
// The handle must belong to this graph, or to a graph that has this one as a body.
CUresult conditional_may_join(const Graph* graph, const Work& work);
void conditional_joined(Graph* graph, Work& work);
// INVALID_VALUE if a handle of the graph has no node.
CUresult conditionals_complete(const Graph* graph);
void forget_handles(Graph* graph);

}  // namespace headgate::sim::driver
