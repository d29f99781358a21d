// Memory that graphs allocate on the simulated driver, as a program and the truth page see it.
#include "sim/driver/graph/test_graph_program.hpp"

namespace headgate::sim {
namespace {

constexpr std::uint64_t kMiB = 1 << 20, kGranule = 32 * kMiB;
constexpr unsigned long long kAutoFree = 1;
constexpr std::uint64_t kFlag = 9;

class SimGraphMemory : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    ::setenv("HEADGATE_SIM_PROFILE", "tiny", 1);
  }
  void TearDown() override {
    ::unsetenv("HEADGATE_SIM_PROFILE");
    Driver::TearDown();
  }
};

AllocateNodeParams asks(std::size_t bytes, int device = 0) {
  AllocateNodeParams params{};
  params.pool.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.pool.location = {1, device};
  params.bytes = bytes;
  return params;
}

struct Taking : Drawing {
  CUstream main = stream();

  struct Made {
    CUgraphNode node = nullptr;
    CUdeviceptr address = 0;
  };
  Made take(CUgraph graph, std::size_t bytes, std::vector<CUgraphNode> behind = {}) {
    AllocateNodeParams params = asks(bytes);
    Made made;
    OK(g.cuGraphAddMemAllocNode(&made.node, graph, behind.data(), behind.size(), &params));
    made.address = params.address;
    return made;
  }
  CUgraphNode give(CUgraph graph, CUdeviceptr address, std::vector<CUgraphNode> behind = {}) {
    CUgraphNode node = nullptr;
    OK(g.cuGraphAddMemFreeNode(&node, graph, behind.data(), behind.size(), address));
    return node;
  }
  std::uint64_t attribute(CUgraphMem_attribute which) {
    std::uint64_t value = 0;
    OK(cu.cuDeviceGetGraphMemAttribute(0, which, &value));
    return value;
  }
  std::uint64_t reserved() { return attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT); }
  std::uint64_t used() { return attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT); }
  CUgraphExec exec_with(CUgraph graph, unsigned long long flags) {
    CUgraphExec made = nullptr;
    OK(g.cuGraphInstantiateWithFlags(&made, graph, flags));
    return made;
  }
  void finish() { OK(cu.cuStreamSynchronize(main)); }
};

TEST_F(SimGraphMemory, HasAnAddressAtOnceAndBytesAtTheLaunch) {
  EXPECT_EQ(run([this] {
              Taking p;
              const CUgraph graph = p.graph();
              const auto made = p.take(graph, 40 * kMiB);
              const CUgraphNode work = p.kernel(graph, 100, {made.node});
              p.give(graph, made.address, {work});
              const CUgraphExec exec = p.exec(graph);
              must(made.address != 0 && p.reserved() == 0 && truth().processes.at(0).bytes == 0,
                   "bytes before a launch");
              for (int i = 0; i < 3; ++i) OK(p.g.cuGraphLaunch(exec, p.main));
              p.finish();
              must(p.reserved() == 2 * kGranule && p.used() == 0, "the bytes of three launches are the same");
              must(truth().processes.at(0).bytes == 2 * kGranule, "the truth");
              must(p.attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) == 40 * kMiB, "the high mark");
              OK(p.cu.cuDeviceGraphMemTrim(0));
              must(p.reserved() == 0 && truth().processes.at(0).bytes == 0, "a trim gives back");
              OK(p.g.cuGraphLaunch(exec, p.main));
              must(p.reserved() == 2 * kGranule, "and the next launch takes again");
            }),
            0);
  EXPECT_EQ(truth().used_bytes, 0u);
}

TEST_F(SimGraphMemory, IsUsableAfterTheGraphUntilItIsFreed) {
  EXPECT_EQ(run([] {
              Taking p;
              const CUgraph graph = p.graph(), other = p.graph();
              const auto made = p.take(graph, kMiB);
              const FillNodeParams fill{made.address, 0, 0x01020304, 4, 256, 1};
              CUgraphNode filled = nullptr;
              OK(p.g.cuGraphAddMemsetNode(&filled, graph, &made.node, 1, &fill, p.context));
              p.give(other, made.address);
              const CUgraphExec exec = p.exec(graph), freeing = p.exec(other);
              IS(p.g.cuGraphLaunch(freeing, p.main), CUDA_ERROR_INVALID_VALUE);  // without bytes
              OK(p.g.cuGraphLaunch(exec, p.main));
              unsigned word = 0;
              OK(p.cu.cuMemcpyDtoHAsync_v2(&word, made.address + 1020, 4, p.main));
              p.finish();
              must(word == 0x01020304, "what the graph wrote");
              IS(p.g.cuGraphLaunch(exec, p.main), CUDA_ERROR_INVALID_VALUE);  // not freed
              OK(p.g.cuGraphLaunch(freeing, p.main));
              OK(p.g.cuGraphLaunch(exec, p.main));
              OK(p.cu.cuMemFreeAsync(made.address, p.main));
              IS(p.cu.cuMemFreeAsync(made.address, p.main), CUDA_ERROR_INVALID_VALUE);
              OK(p.g.cuGraphLaunch(exec, p.main));
              p.finish();
              OK(p.cu.cuMemFree_v2(made.address));
              IS(p.cu.cuMemFree_v2(made.address), CUDA_ERROR_INVALID_VALUE);
              OK(p.g.cuGraphLaunch(exec, p.main));
              must(p.used() == kMiB && p.reserved() == kGranule, "one allocation at a time");
              // The memory outlives the graph and the executable graph.
              OK(p.g.cuGraphExecDestroy(exec));
              OK(p.g.cuGraphExecDestroy(freeing));
              OK(p.g.cuGraphDestroy(graph));
              OK(p.g.cuGraphDestroy(other));
              OK(p.cu.cuMemcpyDtoHAsync_v2(&word, made.address, 4, p.main));
              OK(p.cu.cuMemFreeAsync(made.address, p.main));
              p.finish();
              must(p.used() == 0, "still used");
              IS(p.cu.cuMemcpyDtoH_v2(&word, made.address, 4), CUDA_ERROR_INVALID_VALUE);
            }),
            0);
}

TEST_F(SimGraphMemory, IsFreedByTheNextLaunchOfAnAutoFreeGraph) {
  EXPECT_EQ(run([] {
              Taking p;
              const CUgraph graph = p.graph();
              const auto made = p.take(graph, 20 * kMiB);
              const CUgraphExec exec = p.exec_with(graph, kAutoFree);
              for (int i = 0; i < 4; ++i) OK(p.g.cuGraphLaunch(exec, p.main));
              p.finish();
              must(p.reserved() == kGranule && p.used() == 20 * kMiB, "reserved or used");
              OK(p.cu.cuMemFree_v2(made.address));
              must(p.used() == 0, "still used");
            }),
            0);
}

TEST_F(SimGraphMemory, IsSharedByGraphsOfOneStreamOnly) {
  EXPECT_EQ(run([] {
              Taking p;
              const CUstream side = p.stream();
              std::vector<CUgraphExec> execs;
              for (int i = 0; i < 3; ++i) {
                const CUgraph graph = p.graph();
                const auto made = p.take(graph, kGranule);
                p.give(graph, made.address, {made.node});
                execs.push_back(p.exec(graph));
              }
              p.run_flag(p.spin, kFlag, p.main);
              OK(p.g.cuGraphLaunch(execs[0], p.main));
              OK(p.g.cuGraphLaunch(execs[1], p.main));
              must(p.reserved() == kGranule, "one after the other need one backing");
              OK(p.g.cuGraphLaunch(execs[2], side));
              must(p.reserved() == 2 * kGranule, "beside each other need two");
              p.run_flag(p.raise, kFlag, side);
              OK(p.cu.cuCtxSynchronize());
              must(p.used() == 0, "all is freed");
            }),
            0);
}

TEST_F(SimGraphMemory, FailsTheLaunchIfItDoesNotFit) {
  EXPECT_EQ(run([] {
              Taking p;
              const CUgraph graph = p.graph();
              const auto small = p.take(graph, 100 * kMiB), large = p.take(graph, 1900 * kMiB, {small.node});
              p.kernel(graph, 100, {large.node});
              const CUgraphExec exec = p.exec_with(graph, kAutoFree);
              IS(p.g.cuGraphLaunch(exec, p.main), CUDA_ERROR_OUT_OF_MEMORY);
              IS(p.g.cuGraphUpload(exec, p.main), CUDA_ERROR_OUT_OF_MEMORY);
              must(p.used() == 0, "used after a failure");
              CUdeviceptr linear = 0;
              OK(p.cu.cuMemAlloc_v2(&linear, 1800 * kMiB));  // unused bytes in the pool are released to make room
            }),
            0);
  EXPECT_EQ(truth().processes.at(0).kernels, 0u);
}

TEST_F(SimGraphMemory, IsReservedByAnUploadForTheLaunch) {
  EXPECT_EQ(run([] {
              Taking p;
              const CUgraph graph = p.graph();
              for (const std::uint64_t bytes : {10 * kMiB, 30 * kMiB, 50 * kMiB}) {
                const auto made = p.take(graph, bytes);
                p.give(graph, made.address, {made.node});
              }
              const CUgraphExec exec = p.exec(graph);
              OK(p.g.cuGraphUpload(exec, p.main));
              const std::uint64_t uploaded = p.reserved();
              must(uploaded >= 90 * kMiB && p.used() == 0, "an upload reserves and uses nothing");
              OK(p.g.cuGraphLaunch(exec, p.main));
              must(p.reserved() == uploaded, "the launch took more");
            }),
            0);
}

TEST_F(SimGraphMemory, ComesFromCapturedAllocationsToo) {
  EXPECT_EQ(run([] {
              Taking p;
              CUdeviceptr freed = 0, kept = 0, outside = 0;
              OK(p.cu.cuMemAllocAsync(&outside, 4096, p.main));
              OK(p.cu.cuStreamBeginCapture_v2(p.main, CU_STREAM_CAPTURE_MODE_GLOBAL));
              OK(p.cu.cuMemAllocAsync(&freed, kMiB, p.main));
              OK(p.cu.cuMemsetD8Async(freed, 7, kMiB, p.main));
              CUmemoryPool pool = nullptr;
              OK(p.cu.cuDeviceGetDefaultMemPool(&pool, 0));
              OK(p.cu.cuMemAllocFromPoolAsync(&kept, kMiB, pool, p.main));
              OK(p.cu.cuMemcpyDtoDAsync_v2(kept, freed, kMiB, p.main));
              OK(p.cu.cuMemFreeAsync(freed, p.main));
              IS(p.cu.cuMemFreeAsync(freed, p.main), CUDA_ERROR_INVALID_VALUE);
              IS(p.cu.cuMemFreeAsync(outside, p.main), CUDA_ERROR_INVALID_VALUE);
              CUgraph graph = nullptr;
              OK(p.cu.cuStreamEndCapture(p.main, &graph));
              const auto nodes = p.nodes(graph);
              must(nodes.size() == 5 && p.type(nodes[0]) == NodeType::allocate &&
                       p.type(nodes[2]) == NodeType::allocate && p.type(nodes[4]) == NodeType::free,
                   "other nodes");
              AllocateNodeParams told{};
              CUdeviceptr told_free = 0;
              OK(p.g.cuGraphMemAllocNodeGetParams(nodes[2], &told));
              OK(p.g.cuGraphMemFreeNodeGetParams(nodes[4], &told_free));
              must(told.address == kept && told.bytes == kMiB && told_free == freed, "other parameters");
              must(p.reserved() == 0, "a capture takes nothing");
              const CUgraphExec exec = p.exec(graph);
              OK(p.g.cuGraphLaunch(exec, p.main));
              unsigned char byte = 0;
              OK(p.cu.cuMemcpyDtoHAsync_v2(&byte, kept + kMiB - 1, 1, p.main));
              p.finish();
              must(byte == 7, "the copy within the graph");
              OK(p.cu.cuMemFree_v2(kept));
              IS(p.cu.cuMemFree_v2(freed), CUDA_ERROR_INVALID_VALUE);
              OK(p.cu.cuMemFree_v2(outside));
            }),
            0);
}

TEST_F(SimGraphMemory, BindsItsGraphAsCudaSays) {
  EXPECT_EQ(run([] {
              Taking p;
              const CUgraph graph = p.graph();
              const auto made = p.take(graph, kMiB);
              const CUgraphNode work = p.kernel(graph, 10, {made.node});
              CUgraph clone = nullptr;
              CUgraphNode child = nullptr;
              IS(p.g.cuGraphClone(&clone, graph), CUDA_ERROR_NOT_SUPPORTED);
              IS(p.g.cuGraphDestroyNode(work), CUDA_ERROR_NOT_SUPPORTED);
              IS(p.g.cuGraphRemoveDependencies(graph, &made.node, &work, 1), CUDA_ERROR_NOT_SUPPORTED);
              const CUgraph parent = p.graph();
              IS(p.g.cuGraphAddChildGraphNode(&child, parent, nullptr, 0, graph), CUDA_ERROR_NOT_SUPPORTED);
              CUgraphExec exec = p.exec(graph), second = nullptr;
              IS(p.g.cuGraphInstantiateWithFlags(&second, graph, 0), CUDA_ERROR_NOT_SUPPORTED);
              UpdateResultInfo info{};
              OK(p.g.cuGraphExecUpdate_v2(exec, graph, &info));
              const CUgraph twin = p.graph();
              const auto other = p.take(twin, kMiB);
              p.kernel(twin, 10, {other.node});
              IS(p.g.cuGraphExecUpdate_v2(exec, twin, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
              must(info.result == 6, "not for a node that is not supported");
              OK(p.g.cuGraphExecDestroy(exec));
              exec = p.exec(graph);  // the first one was destroyed
              OK(p.cu.cuStreamBeginCapture_v2(p.main, CU_STREAM_CAPTURE_MODE_GLOBAL));
              IS(p.g.cuGraphLaunch(exec, p.main), CUDA_ERROR_NOT_SUPPORTED);
              IS(p.cu.cuStreamEndCapture(p.main, &clone), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
              OK(p.g.cuGraphExecDestroy(exec));
              // After it was moved into a parent, it is part of the parent.
              AnyNodeParams params{};
              params.type = NodeType::child;
              params.child = {graph, 1};
              OK(p.g.cuGraphAddNode_v2(&child, parent, nullptr, nullptr, 0, &params));
              must(params.child.graph == graph, "another graph");
              IS(p.g.cuGraphInstantiateWithFlags(&second, graph, 0), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
              AllocateNodeParams more = asks(kMiB);
              CUgraphNode node = nullptr;
              IS(p.g.cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &more), CUDA_ERROR_NOT_SUPPORTED);
              OK(p.g.cuGraphLaunch(p.exec(parent), p.main));
              must(p.used() == kMiB, "the child's memory");
              OK(p.cu.cuMemFreeAsync(made.address, p.main));
              p.finish();
            }),
            0);
}

TEST_F(SimGraphMemory, AnswersBadArgumentsLikeADriver) {
  EXPECT_EQ(run([] {
              Taking p;
              const CUgraph graph = p.graph(), other = p.graph();
              CUgraphNode node = nullptr;
              const auto refused = [&](const AllocateNodeParams& given, CUresult wanted) {
                AllocateNodeParams params = given;
                is(p.g.cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params), wanted, "an allocation node");
              };
              AllocateNodeParams params = asks(kMiB);
              IS(p.g.cuGraphAddMemAllocNode(&node, graph, nullptr, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphAddMemAllocNode(nullptr, graph, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphAddMemAllocNode(&node, nullptr, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
              refused(asks(0), CUDA_ERROR_INVALID_VALUE);
              refused(asks(kMiB, 7), CUDA_ERROR_INVALID_DEVICE);
              refused(asks(1ull << 60), CUDA_ERROR_OUT_OF_MEMORY);
              params.pool.handleTypes = static_cast<CUmemAllocationHandleType>(1);
              refused(params, CUDA_ERROR_INVALID_VALUE);
              params = asks(kMiB);
              params.access_count = 1;
              refused(params, CUDA_ERROR_INVALID_VALUE);
              const auto made = p.take(graph, kMiB);
              must(p.nodes(graph).size() == 1, "a refused node was added");
              IS(p.g.cuGraphAddMemFreeNode(&node, graph, nullptr, 0, 0), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphAddMemFreeNode(&node, graph, nullptr, 0, made.address + 512), CUDA_ERROR_INVALID_VALUE);
              CUdeviceptr linear = 0;
              OK(p.cu.cuMemAlloc_v2(&linear, kMiB));
              IS(p.g.cuGraphAddMemFreeNode(&node, graph, nullptr, 0, linear), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphAddMemFreeNode(&node, other, &made.node, 1, made.address), CUDA_ERROR_INVALID_VALUE);
              const CUgraphNode freed = p.give(graph, made.address, {made.node});
              IS(p.g.cuGraphAddMemFreeNode(&node, graph, nullptr, 0, made.address), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphAddMemFreeNode(&node, other, nullptr, 0, made.address), CUDA_ERROR_INVALID_VALUE);
              const auto second = p.take(graph, kMiB);
              p.give(other, second.address);
              IS(p.g.cuGraphAddMemFreeNode(&node, graph, nullptr, 0, second.address), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphAddMemFreeNode(&node, other, nullptr, 0, second.address), CUDA_ERROR_INVALID_VALUE);
              IS(p.cu.cuMemFree_v2(made.address), CUDA_ERROR_INVALID_VALUE);  // never launched
              CUdeviceptr told = 0;
              IS(p.g.cuGraphMemAllocNodeGetParams(freed, &params), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphMemFreeNodeGetParams(made.node, &told), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphMemFreeNodeGetParams(freed, nullptr), CUDA_ERROR_INVALID_VALUE);
              // Through the general call, cuGraphAddNode.
              AnyNodeParams any{};
              any.type = NodeType::allocate;
              any.allocate = asks(kMiB);
              OK(p.g.cuGraphAddNode_v2(&node, graph, nullptr, nullptr, 0, &any));
              must(any.allocate.address != 0, "no address told");
              any.type = NodeType::free;
              any.free = any.allocate.address;
              OK(p.g.cuGraphAddNode_v2(&node, graph, &node, nullptr, 1, &any));
            }),
            0);
}

}  // namespace
}  // namespace headgate::sim
