// Creation and destruction of executable graphs. The meter treats a graph launch as one command and learns its duration
// like a kernel's; until measured, it is estimated as the sum of its kernels.
#include <array>

#include "guest/limiter/compute/stream_table.hpp"
#include "guest/limiter/memory/graph_memory.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/stream/captures.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace {

constexpr std::int64_t kUnknownKernelNs = 10'000;
constexpr int kNodesLookedAt = 128;  // of a graph and its child graphs together
constexpr int kDeepest = 3;          // nesting of child graphs

// An estimate for a graph; `known` is false if nothing tells how often its nodes run.
struct Guess {
  std::int64_t ns = 0;
  bool known = true;
};

Guess guess(CUgraph graph, int depth, int& left);

Guess guess(CUgraphNode node, int depth, int& left) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
  if (driver.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) return {};
  if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL) return {0, false};
  if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
    CUgraph child = nullptr;
    if (depth == 0 || driver.cuGraphChildGraphNodeGetGraph == nullptr ||
        driver.cuGraphChildGraphNodeGetGraph(node, &child) != CUDA_SUCCESS)
      return {};
    return guess(child, depth - 1, left);
  }
  if (type != CU_GRAPH_NODE_TYPE_KERNEL) return {};
  CUDA_KERNEL_NODE_PARAMS params{};
  if (driver.cuGraphKernelNodeGetParams_v2 == nullptr ||
      driver.cuGraphKernelNodeGetParams_v2(node, &params) != CUDA_SUCCESS)
    return {kUnknownKernelNs};
  const std::int64_t known_ns = metered.estimates.known_ns(reinterpret_cast<std::uintptr_t>(params.func));
  return {known_ns != 0 ? known_ns : kUnknownKernelNs};
}

// Adds the nodes up, which is too much for parallel branches. Extrapolates from the nodes looked at: a program must not
// wait while we read a large graph, and its first launch tells more.
Guess guess(CUgraph graph, int depth, int& left) {
  std::array<CUgraphNode, kNodesLookedAt> nodes;
  std::size_t all = 0, count = nodes.size();
  if (driver.cuGraphGetNodes(graph, nullptr, &all) != CUDA_SUCCESS || all == 0) return {};
  if (driver.cuGraphGetNodes(graph, nodes.data(), &count) != CUDA_SUCCESS) return {};
  if (count > all) count = all;
  Guess sum;
  std::size_t seen = 0;
  for (; seen < count && left > 0; ++seen) {
    --left;
    const Guess one = guess(nodes[seen], depth, left);
    sum.ns += one.ns;
    sum.known = sum.known && one.known;
  }
  if (seen == 0) return {};
  sum.ns =
      static_cast<std::int64_t>(static_cast<double>(sum.ns) * static_cast<double>(all) / static_cast<double>(seen));
  return sum;
}

std::uint64_t key(CUgraphExec exec) { return reinterpret_cast<std::uintptr_t>(exec); }

void guess_launch(CUgraphExec exec, CUgraph graph) {
  if (driver.cuGraphGetNodes == nullptr || driver.cuGraphNodeGetType == nullptr) return;
  // Guess for graphs of one node too: even a lower bound of the GPU time helps.
  int left = kNodesLookedAt;
  const Guess launch = guess(graph, kDeepest, left);
  if (launch.ns > 0 && launch.known) metered.estimates.expect(key(exec), launch.ns);
  else metered.estimates.forget(key(exec));
}

// `uploads`: the stream into which the graph is uploaded at once, which takes the memory that the graph allocates.
template <typename Call>
CUresult instantiated(CUgraphExec* exec, CUgraph graph, cuuint64_t flags, const CUstream* uploads, const Call& call) {
  const bool allocates = graphs_allocate() && seated();
  GraphNeeds needs = allocates ? needs_of(graph) : GraphNeeds{};
  needs.frees_itself = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  GraphRequest request(needs, nullptr, nullptr);
  const bool takes = allocates && uploads != nullptr && !is_captured(*uploads);
  if (takes && !request.expect()) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = call();
  if (takes) request.settle();
  if (result != CUDA_SUCCESS) return result;
  if (allocates) note_needs(*exec, needs);
  if (concerned()) guess_launch(*exec, graph);
  return result;
}

template <typename Function>
CUresult instantiated_with(Function* const& real, CUgraphExec* exec, CUgraph graph,
                           CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  const bool uploads = params != nullptr && (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0;
  return instantiated(exec, graph, params != nullptr ? params->flags : 0, uploads ? &params->hUploadStream : nullptr,
                      [&] { return forward(real, exec, graph, params); });
}

}  // namespace

HEADGATE_HOOK CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* error, char* log,
                                          std::size_t bytes) {
  return instantiated(exec, graph, 0, nullptr,
                      [=] { return forward(driver.cuGraphInstantiate, exec, graph, error, log, bytes); });
}
HEADGATE_HOOK CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* error, char* log,
                                             std::size_t bytes) {
  return instantiated(exec, graph, 0, nullptr,
                      [=] { return forward(driver.cuGraphInstantiate_v2, exec, graph, error, log, bytes); });
}
HEADGATE_HOOK CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return instantiated(exec, graph, flags, nullptr,
                      [=] { return forward(driver.cuGraphInstantiateWithFlags, exec, graph, flags); });
}
HEADGATE_HOOK CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                                    CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return instantiated_with(driver.cuGraphInstantiateWithParams, exec, graph, params);
}
HEADGATE_HOOK CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* exec, CUgraph graph,
                                                         CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return instantiated_with(driver.cuGraphInstantiateWithParams_ptsz, exec, graph, params);
}

// Its launches keep their charges; the next graph at this address is a different one.
HEADGATE_HOOK CUresult cuGraphExecDestroy(CUgraphExec exec) {
  const GraphNeeds needs = take_needs(exec);
  const CUresult result = forward(driver.cuGraphExecDestroy, exec);
  if (result != CUDA_SUCCESS) note_needs(exec, needs);
  if (result == CUDA_SUCCESS && metered.active.load(std::memory_order_acquire)) {
    metered.estimates.forget(key(exec));
    move_lane_epoch();
  }
  return result;
}
