// Graph calls for test programs.
#pragma once

#include "sim/driver/graph/test_graph_calls.hpp"
#include "sim/driver/test_program.hpp"

namespace headgate::sim {

// A program that builds graphs.
struct Drawing : Program {
  GraphCalls g{::dlopen(HEADGATE_SIM_CUDA, RTLD_NOW)};

  CUgraph graph() {
    CUgraph made = nullptr;
    OK(g.cuGraphCreate(&made, 0));
    return made;
  }
  CUgraphNode kernel(CUgraph graph, unsigned microseconds, std::vector<CUgraphNode> behind = {}, unsigned blocks = 1) {
    void* parameters[] = {&microseconds};
    const KernelNodeParams params = shape(us, parameters, blocks);
    CUgraphNode node = nullptr;
    OK(g.cuGraphAddKernelNode_v2(&node, graph, behind.data(), behind.size(), &params));
    return node;
  }
  static KernelNodeParams shape(CUfunction function, void** parameters, unsigned blocks = 1) {
    KernelNodeParams params{};
    params.func = function;
    params.grid[0] = blocks;
    params.grid[1] = params.grid[2] = params.block[1] = params.block[2] = 1;
    params.block[0] = 32;
    params.parameters = parameters;
    return params;
  }
  CUgraphExec exec(CUgraph graph) {
    CUgraphExec made = nullptr;
    OK(g.cuGraphInstantiateWithFlags(&made, graph, 0));
    return made;
  }
  CUevent event() {
    CUevent made = nullptr;
    OK(cu.cuEventCreate(&made, 0));
    return made;
  }
  std::vector<CUgraphNode> nodes(CUgraph graph) {
    std::size_t count = 0;
    OK(g.cuGraphGetNodes(graph, nullptr, &count));
    std::vector<CUgraphNode> all(count);
    if (count != 0) OK(g.cuGraphGetNodes(graph, all.data(), &count));
    return all;
  }
  NodeType type(CUgraphNode node) {
    NodeType found{};
    OK(g.cuGraphNodeGetType(node, &found));
    return found;
  }
};

inline void is(CUresult result, CUresult wanted, const char* what) {
  must(result == wanted,
       message(what, " answered ", static_cast<unsigned>(result), ", not ", static_cast<unsigned>(wanted)));
}
#define IS(call, wanted) is(call, wanted, #call)

}  // namespace headgate::sim
