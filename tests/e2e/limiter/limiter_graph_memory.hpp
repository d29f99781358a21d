// Graphs that allocate memory, as limiter_pool makes, runs and destroys them.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "sim/driver/graph/test_graph_calls.hpp"
#include "support/driver_call.hpp"

namespace headgate::e2e {

using namespace abi;

struct GraphMemory {
  headgate::sim::GraphCalls g{dlopen("libcuda.so.1", RTLD_NOW)};
  struct One {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    CUdeviceptr address = 0;
  };
  std::vector<One> all;

  CUresult node(One& one, CUgraphNode* tail, std::uint64_t bytes, bool frees) const {
    headgate::sim::AllocateNodeParams params{};
    params.pool.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.pool.location = {1, 0};
    params.bytes = bytes;
    CUresult result = g.cuGraphAddMemAllocNode(tail, one.graph, tail, *tail == nullptr ? 0 : 1, &params);
    if (result == CUDA_SUCCESS && frees) result = g.cuGraphAddMemFreeNode(tail, one.graph, tail, 1, params.address);
    one.address = params.address;
    return result;
  }
  CUresult make(unsigned count, std::uint64_t bytes, bool frees, unsigned flags) {
    One one;
    CUgraphNode tail = nullptr;
    CUresult result = g.cuGraphCreate(&one.graph, 0);
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; ++i) result = node(one, &tail, bytes, frees);
    headgate::sim::InstantiateParams params{flags, nullptr, nullptr, 0};
    if (result == CUDA_SUCCESS)
      result = CALL(cuGraphInstantiateWithParams)(&one.exec, one.graph,
                                                  reinterpret_cast<CUDA_GRAPH_INSTANTIATE_PARAMS*>(&params));
    all.push_back(one);
    return result;
  }
  CUresult captured(std::uint64_t bytes, CUstream stream) {
    One one;
    CALL(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUresult result = CALL(cuMemAllocAsync)(&one.address, bytes, stream);
    if (result == CUDA_SUCCESS) result = CALL(cuMemFreeAsync)(one.address, stream);
    const CUresult end = CALL(cuStreamEndCapture)(stream, &one.graph);
    if (result == CUDA_SUCCESS) result = end;
    if (result == CUDA_SUCCESS) result = CALL(cuGraphInstantiateWithFlags)(&one.exec, one.graph, 0);
    all.push_back(one);
    return result;
  }
  CUresult moved(std::uint64_t bytes) {
    One parent, child;
    CUgraphNode tail = nullptr;
    g.cuGraphCreate(&parent.graph, 0);
    g.cuGraphCreate(&child.graph, 0);
    CUresult result = node(child, &tail, bytes, true);
    headgate::sim::AnyNodeParams params{};
    params.type = headgate::sim::NodeType::child;
    params.child = {child.graph, 1};
    if (result == CUDA_SUCCESS) result = g.cuGraphAddNode_v2(&tail, parent.graph, nullptr, nullptr, 0, &params);
    if (result == CUDA_SUCCESS) result = CALL(cuGraphInstantiateWithFlags)(&parent.exec, parent.graph, 0);
    all.push_back(parent);
    return result;
  }
  // Graphs of many sizes are made, run in several streams and destroyed. The share's limit must hold throughout.
  CUresult storm(std::uint64_t rounds, unsigned seed) {
    std::uint64_t refused = 0, done = 0;
    std::vector<CUstream> streams(3);
    for (CUstream& stream : streams) CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
    for (std::uint64_t i = 0; i < rounds; ++i) {
      const auto bytes = 1 + static_cast<std::uint64_t>(rand_r(&seed)) % (90 << 20);
      const unsigned count = 1 + static_cast<unsigned>(rand_r(&seed)) % 3;
      if (const CUresult made = make(count, bytes, true, 0); made != CUDA_SUCCESS) return made;
      for (int again = 0; again < 3; ++again) {
        const CUstream stream = streams[static_cast<unsigned>(rand_r(&seed)) % streams.size()];
        const CUresult result = CALL(cuGraphLaunch)(all.back().exec, stream);
        if (result == CUDA_ERROR_OUT_OF_MEMORY) ++refused;
        else if (result != CUDA_SUCCESS) return result;
        else ++done;
        if (rand_r(&seed) % 4 == 0) CALL(cuStreamSynchronize)(stream);
      }
      if (rand_r(&seed) % 8 == 0) CALL(cuDeviceGraphMemTrim)(0);
      CALL(cuGraphExecDestroy)(all.back().exec);
      g.cuGraphDestroy(all.back().graph);
      all.pop_back();
    }
    CALL(cuCtxSynchronize)();
    CALL(cuDeviceGraphMemTrim)(0);
    std::printf("done %lu refused %lu\n", done, refused);
    return CUDA_SUCCESS;
  }
};

}  // namespace headgate::e2e
