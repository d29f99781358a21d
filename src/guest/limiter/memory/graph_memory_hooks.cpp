// Calls, other than captures, that add allocation nodes to graphs.
#include "guest/limiter/memory/graph_memory.hpp"
#include "guest/limiter/route/forward.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace {

// cuda.h: CUgraphNodeParams starts with the node's type.
bool allocates(const CUgraphNodeParams* params) {
  return params != nullptr && *reinterpret_cast<const CUgraphNodeType*>(params) == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
}

}  // namespace

HEADGATE_HOOK CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* behind,
                                              std::size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return graph_allocated(forward(driver.cuGraphAddMemAllocNode, node, graph, behind, count, params));
}
HEADGATE_HOOK CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* behind, std::size_t count,
                                      CUgraphNodeParams* params) {
  const bool allocating = allocates(params);
  const CUresult result = forward(driver.cuGraphAddNode, node, graph, behind, count, params);
  return allocating ? graph_allocated(result) : result;
}
HEADGATE_HOOK CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* behind,
                                         const CUgraphEdgeData* data, std::size_t count, CUgraphNodeParams* params) {
  const bool allocating = allocates(params);
  const CUresult result = forward(driver.cuGraphAddNode_v2, node, graph, behind, data, count, params);
  return allocating ? graph_allocated(result) : result;
}
