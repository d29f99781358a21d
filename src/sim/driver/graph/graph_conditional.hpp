// Conditional nodes: a handle, set by kernels of the graph, decides which body comes and how often.
//
// Kernels are not executed, so what they set is known when the graph is launched: their pragmas say it. The launch
// walks the nodes in their order, follows the handles, and sends the bodies that come, one node after the other in one
// stream.
#pragma once

#include "sim/driver/graph/graph.hpp"

namespace headgate::sim::driver {

struct Conditional {
  cuuint64_t handle = 0;
  Graph* graph = nullptr;  // null once it is gone
  Context* context = nullptr;
  unsigned at_launch = 0;
  bool assigned_at_launch = false;
  bool has_node = false;
  unsigned type = 0;
  std::vector<CUgraph> told;  // the bodies, as the program was told
};

// INVALID_VALUE unless the handle exists, has no node yet, and the rest fits it.
CUresult conditional_work(const ConditionalNodeParams& given, Work* out);
// The handle must be of this graph, or of one that it is a body of.
CUresult conditional_may_join(const Graph* graph, const Work& work);
void conditional_joined(Graph* graph, Work& work);
// INVALID_VALUE where a handle of the graph has no node.
CUresult conditionals_complete(const Graph* graph);
void forget_handles(Graph* graph);

}  // namespace headgate::sim::driver
