// Executable graphs come and go. A launch of one is one command to the meter, and learned like a kernel; until it was
// measured it is expected to take as long as its kernels.
#include <array>

#include "guest/bare/scratch.hpp"
#include "guest/limiter/compute/captures.hpp"
#include "guest/limiter/compute/process.hpp"
#include "guest/limiter/route/forward.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace {

constexpr std::int64_t kUnknownKernelNs = 10'000;
constexpr std::size_t kNodesLookedAt = 4096;
constexpr int kDeepest = 3;  // child graphs in child graphs

std::int64_t kernels_ns(CUgraph graph, int depth);

std::int64_t node_ns(CUgraphNode node, int depth) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
  if (driver.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) return 0;
  if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
    CUgraph child = nullptr;
    if (depth == 0 || driver.cuGraphChildGraphNodeGetGraph == nullptr ||
        driver.cuGraphChildGraphNodeGetGraph(node, &child) != CUDA_SUCCESS)
      return 0;
    return kernels_ns(child, depth - 1);
  }
  if (type != CU_GRAPH_NODE_TYPE_KERNEL) return 0;
  CUDA_KERNEL_NODE_PARAMS params{};
  if (driver.cuGraphKernelNodeGetParams_v2 == nullptr ||
      driver.cuGraphKernelNodeGetParams_v2(node, &params) != CUDA_SUCCESS)
    return kUnknownKernelNs;
  const std::int64_t known_ns = metered.estimates.known_ns(reinterpret_cast<std::uintptr_t>(params.func));
  return known_ns != 0 ? known_ns : kUnknownKernelNs;
}

// One after the other: too much where branches run side by side.
std::int64_t kernels_ns(CUgraph graph, int depth) {
  const headgate::bare::Scratch<std::array<CUgraphNode, kNodesLookedAt>> nodes;
  std::size_t all = 0, count = kNodesLookedAt;
  if (!nodes || driver.cuGraphGetNodes(graph, nullptr, &all) != CUDA_SUCCESS) return 0;
  if (all == 0 || driver.cuGraphGetNodes(graph, (*nodes).data(), &count) != CUDA_SUCCESS) return 0;
  if (count > all) count = all;
  std::int64_t sum_ns = 0;
  for (std::size_t i = 0; i < count; ++i) sum_ns += node_ns((*nodes)[i], depth);
  // What was not looked at is like what was.
  return static_cast<std::int64_t>(static_cast<double>(sum_ns) * static_cast<double>(all) / static_cast<double>(count));
}

std::uint64_t key(CUgraphExec exec) { return reinterpret_cast<std::uintptr_t>(exec); }

CUresult instantiated(CUresult result, const CUgraphExec* exec, CUgraph graph) {
  if (result != CUDA_SUCCESS || !concerned()) return result;
  if (driver.cuGraphGetNodes == nullptr || driver.cuGraphNodeGetType == nullptr) return result;
  // Of one node and more: the least that an estimate says is something.
  const std::int64_t ns = kernels_ns(graph, kDeepest);
  if (ns > 0) metered.estimates.expect(key(*exec), ns);
  else metered.estimates.forget(key(*exec));
  return result;
}

}  // namespace

HEADGATE_HOOK CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* error, char* log,
                                          std::size_t bytes) {
  return instantiated(forward(driver.cuGraphInstantiate, exec, graph, error, log, bytes), exec, graph);
}
HEADGATE_HOOK CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* error, char* log,
                                             std::size_t bytes) {
  return instantiated(forward(driver.cuGraphInstantiate_v2, exec, graph, error, log, bytes), exec, graph);
}
HEADGATE_HOOK CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return instantiated(forward(driver.cuGraphInstantiateWithFlags, exec, graph, flags), exec, graph);
}
HEADGATE_HOOK CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                                    CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return instantiated(forward(driver.cuGraphInstantiateWithParams, exec, graph, params), exec, graph);
}
HEADGATE_HOOK CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* exec, CUgraph graph,
                                                         CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return instantiated(forward(driver.cuGraphInstantiateWithParams_ptsz, exec, graph, params), exec, graph);
}

// Its launches keep what they were charged; the next graph at this address is another.
HEADGATE_HOOK CUresult cuGraphExecDestroy(CUgraphExec exec) {
  const CUresult result = forward(driver.cuGraphExecDestroy, exec);
  if (result == CUDA_SUCCESS && metered.active.load(std::memory_order_acquire)) {
    metered.estimates.forget(key(exec));
    move_lane_epoch();
  }
  return result;
}
