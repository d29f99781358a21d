// Conditional nodes and word operations in graphs, on the simulated driver.
#include "sim/driver/graph/test_graph_program.hpp"

namespace headgate::sim {
namespace {

constexpr unsigned kIf = 0, kWhile = 1, kSwitch = 2, kAssign = 1;
constexpr std::uint32_t kWait32 = 1, kWrite32 = 2, kWrite64 = 5;
constexpr char kSetters[] = R"(.version 8.4
.target sm_90
.address_size 64
.visible .entry pick(.param .u64 h, .param .u32 v) {
  .pragma "headgate.sim.us 10", "headgate.sim.conditional param0 param1"; ret; }
.visible .entry loop(.param .u64 h, .param .u32 n) {
  .pragma "headgate.sim.us 10", "headgate.sim.countdown param0 param1"; ret; }
)";

struct Choosing : Drawing {
  CUstream main = stream();
  CUfunction pick = nullptr, loop = nullptr;
  Choosing() {
    CUmodule setters = nullptr;
    OK(cu.cuModuleLoadData(&setters, kSetters));
    OK(cu.cuModuleGetFunction(&pick, setters, "pick"));
    OK(cu.cuModuleGetFunction(&loop, setters, "loop"));
  }
  cuuint64_t handle(CUgraph graph, unsigned at_launch, unsigned flags = kAssign) {
    cuuint64_t made = 0;
    OK(g.cuGraphConditionalHandleCreate(&made, graph, context, at_launch, flags));
    return made;
  }
  static AnyNodeParams asks(cuuint64_t handle, unsigned type, unsigned size) {
    AnyNodeParams params{};
    params.type = NodeType::conditional;
    params.conditional = {handle, type, size, nullptr, nullptr};
    return params;
  }
  std::vector<CUgraph> choose(CUgraph graph, cuuint64_t handle, unsigned type, unsigned size,
                              std::vector<CUgraphNode> behind = {}) {
    AnyNodeParams params = asks(handle, type, size);
    CUgraphNode node = nullptr;
    OK(g.cuGraphAddNode_v2(&node, graph, behind.data(), nullptr, behind.size(), &params));
    return {params.conditional.bodies, params.conditional.bodies + size};
  }
  CUgraphNode set(CUgraph graph, CUfunction by, cuuint64_t handle, unsigned value,
                  std::vector<CUgraphNode> behind = {}) {
    void* parameters[] = {&handle, &value};
    const KernelNodeParams params = shape(by, parameters);
    CUgraphNode node = nullptr;
    OK(g.cuGraphAddKernelNode_v2(&node, graph, behind.data(), behind.size(), &params));
    return node;
  }
  void run_once(CUgraph graph) {
    OK(g.cuGraphLaunch(exec(graph), main));
    OK(cu.cuStreamSynchronize(main));
  }
};

class GraphConditions : public Driver {
 protected:
  std::uint64_t held_us() { return truth().processes.at(0).held_ns / 1000; }
};

TEST_F(GraphConditions, AnIfRunsItsBodyOrItsElseByTheKernelsValue) {
  EXPECT_EQ(run([this] {
              Choosing p;
              for (const unsigned value : {1u, 0u}) {
                const CUgraph graph = p.graph();
                const cuuint64_t handle = p.handle(graph, 1 - value);  // the kernel sets the opposite
                const CUgraphNode setter = p.set(graph, p.pick, handle, value);
                const auto bodies = p.choose(graph, handle, kIf, 2, {setter});
                p.kernel(bodies[0], 1000);
                p.kernel(bodies[1], 7000);
                const std::uint64_t before = value == 1 ? 0 : held_us();
                p.run_once(graph);
                must(held_us() - before == (value == 1 ? 1010 : 7010), "another body ran");
              }
            }),
            0);
}

TEST_F(GraphConditions, AWhileRunsAsOftenAsItsKernelCountsEachTime) {
  EXPECT_EQ(run([this] {
              Choosing p;
              const CUgraph graph = p.graph();
              const cuuint64_t handle = p.handle(graph, 1);
              const CUgraph body = p.choose(graph, handle, kWhile, 1).at(0);
              p.set(body, p.loop, handle, 5, {p.kernel(body, 100)});
              const CUgraphExec exec = p.exec(graph);
              for (int i = 0; i < 3; ++i) OK(p.g.cuGraphLaunch(exec, p.main));
              OK(p.cu.cuStreamSynchronize(p.main));
              must(held_us() == 3 * 5 * 110, "another number of rounds");
            }),
            0);
  EXPECT_EQ(truth().processes.at(0).kernels, 30u);
}

TEST_F(GraphConditions, ASwitchRunsTheBodyOfItsValueAndBodiesNest) {
  EXPECT_EQ(run([this] {
              Choosing p;
              std::uint64_t before = 0;
              for (unsigned value = 0; value < 4; ++value) {
                const CUgraph graph = p.graph();
                const cuuint64_t handle = p.handle(graph, value), inner = p.handle(graph, 1);
                const auto bodies = p.choose(graph, handle, kSwitch, 3);
                for (unsigned i = 0; i < 3; ++i) p.kernel(bodies[i], 1000 * (i + 1));
                p.kernel(p.choose(bodies[2], inner, kIf, 1).at(0), 500);
                p.run_once(graph);
                const std::uint64_t wanted[] = {1000, 2000, 3500, 0};
                must(held_us() - before == wanted[value], "another body ran");
                before = held_us();
              }
            }),
            0);
}

TEST_F(GraphConditions, AHandleWithoutDefaultKeepsItsValue) {
  EXPECT_EQ(run([] {
              Choosing p;
              const CUgraph graph = p.graph();
              const cuuint64_t handle = p.handle(graph, 0, 0);
              const CUgraph body = p.choose(graph, handle, kIf, 1).at(0);
              p.kernel(body, 100);
              p.set(graph, p.pick, handle, 1);  // runs after the node, in order of creation
              const CUgraphExec exec = p.exec(graph);
              OK(p.g.cuGraphLaunch(exec, p.main));
              OK(p.g.cuGraphLaunch(exec, p.main));
              OK(p.cu.cuStreamSynchronize(p.main));
            }),
            0);
  EXPECT_EQ(truth().processes.at(0).kernels, 3u);
}

TEST_F(GraphConditions, BadArgumentsAndForbiddenGraphsAreRefused) {
  EXPECT_EQ(run([] {
              Choosing p;
              const CUgraph graph = p.graph(), other = p.graph();
              cuuint64_t made = 0;
              IS(p.g.cuGraphConditionalHandleCreate(nullptr, graph, p.context, 0, 0), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphConditionalHandleCreate(&made, nullptr, p.context, 0, 0), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphConditionalHandleCreate(&made, graph, p.context, 0, 2), CUDA_ERROR_INVALID_VALUE);
              const cuuint64_t handle = p.handle(graph, 1);
              CUgraphNode node = nullptr;
              const auto refused = [&](CUgraph in, cuuint64_t with, unsigned type, unsigned size) {
                AnyNodeParams params = Choosing::asks(with, type, size);
                is(p.g.cuGraphAddNode_v2(&node, in, nullptr, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE,
                   "a conditional node");
              };
              refused(graph, handle + 1000, kIf, 1);
              refused(graph, handle, kIf, 3);
              refused(graph, handle, kWhile, 2);
              refused(graph, handle, kSwitch, 0);
              refused(graph, handle, 3, 1);
              refused(other, handle, kIf, 1);
              CUgraphExec exec = nullptr;
              IS(p.g.cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);  // unused handle
              const CUgraph body = p.choose(graph, handle, kWhile, 1).at(0);
              refused(graph, handle, kIf, 1);  // another node uses it
              CUgraph clone = nullptr;
              IS(p.g.cuGraphClone(&clone, graph), CUDA_ERROR_NOT_SUPPORTED);
              IS(p.g.cuGraphDestroy(body), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphInstantiateWithFlags(&exec, body, 0), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphAddChildGraphNode(&node, other, nullptr, 0, graph), CUDA_ERROR_NOT_SUPPORTED);
              const CUgraphExec endless = p.exec(graph);
              IS(p.g.cuGraphLaunch(endless, p.main), CUDA_ERROR_LAUNCH_TIMEOUT);
              OK(p.g.cuGraphExecDestroy(endless));
              const HostNodeParams call{[](void*) {}, nullptr};
              OK(p.g.cuGraphAddHostNode(&node, body, nullptr, 0, &call));
              IS(p.g.cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);  // not allowed in a body
            }),
            0);
}

TEST_F(GraphConditions, ABatchOfMemoryOperationsKeepsItsPlace) {
  EXPECT_EQ(run([] {
              Choosing p;
              CUdeviceptr words = 0;
              OK(p.cu.cuMemAlloc_v2(&words, 4096));
              OK(p.cu.cuMemsetD8_v2(words, 0, 4096));
              const CUgraph graph = p.graph();
              ValueOperation operations[] = {{kWait32, words, 3, 0, {}}, {kWrite64, words + 8, 1ull << 40, 0, {}}};
              BatchNodeParams params{p.context, 2, operations, 0}, told{};
              CUgraphNode batch = nullptr, node = nullptr;
              OK(p.g.cuGraphAddBatchMemOpNode(&batch, graph, nullptr, 0, &params));
              OK(p.g.cuGraphBatchMemOpNodeGetParams(batch, &told));
              must(told.count == 2 && told.operations != operations && told.operations[1].value == 1ull << 40,
                   "other parameters");
              p.kernel(graph, 100, {batch});
              const CUgraphExec exec = p.exec(graph);
              OK(p.g.cuGraphLaunch(exec, p.main));
              must(p.cu.cuStreamQuery(p.main) == CUDA_ERROR_NOT_READY, "it did not wait");
              const CUstream side = p.stream();
              OK(p.cu.cuStreamWriteValue32(side, words, 3, 0));
              OK(p.cu.cuStreamSynchronize(p.main));
              std::uint64_t word = 0;
              OK(p.cu.cuMemcpyDtoH_v2(&word, words + 8, 8));
              must(word == 1ull << 40, "it did not write");
              operations[0] = {kWrite32, words + 16, 9, 0, {}};
              OK(p.g.cuGraphExecBatchMemOpNodeSetParams(exec, batch, &params));
              OK(p.g.cuGraphLaunch(exec, p.main));
              OK(p.cu.cuMemcpyDtoHAsync_v2(&word, words + 16, 8, p.main));
              OK(p.cu.cuStreamSynchronize(p.main));
              must(word == 9, "the new operation");
              IS(p.g.cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
              params.count = 0;
              IS(p.g.cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
              params.count = 1;
              operations[0].type = 99;
              IS(p.g.cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
              operations[0] = {kWrite32, 12, 9, 0, {}};
              IS(p.g.cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphBatchMemOpNodeGetParams(batch, nullptr), CUDA_ERROR_INVALID_VALUE);
            }),
            0);
}

}  // namespace
}  // namespace headgate::sim
