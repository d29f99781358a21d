// Graphs made node by node on the simulated driver: what they tell, how they run, how they change.
#include <future>

#include "sim/driver/graph/test_graph_program.hpp"

namespace headgate::sim {
namespace {

TEST_F(Driver, BranchesOfAGraphRunInParallelAndItsEndWaitsForAll) {
  EXPECT_EQ(run([] {
              Drawing p;
              const CUstream stream = p.stream();
              const CUgraph graph = p.graph();
              const CUgraphNode root = p.kernel(graph, 1000);
              std::vector<CUgraphNode> branches;
              for (int i = 0; i < 4; ++i) branches.push_back(p.kernel(graph, 10'000, {root}));
              p.kernel(graph, 1000, branches);
              OK(p.g.cuGraphLaunch(p.exec(graph), stream));
              p.run_us(1000, stream);
              OK(p.cu.cuStreamSynchronize(stream));
            }),
            0);
  EXPECT_EQ(truth().processes.at(0).kernels, 7u);
  EXPECT_EQ(truth().processes.at(0).held_ns, 13'000'000u);
}

TEST_F(Driver, AGraphRunsOnceAtATimeAndOutlivesItsHandles) {
  EXPECT_EQ(run([] {
              Drawing p;
              const CUstream a = p.stream(), b = p.stream();
              const CUgraph graph = p.graph();
              const CUgraphNode first = p.kernel(graph, 5000), second = p.kernel(graph, 5000);
              p.kernel(graph, 1000, {first, second});
              const CUgraphExec exec = p.exec(graph);
              OK(p.g.cuGraphUpload(exec, a));
              OK(p.g.cuGraphLaunch(exec, a));
              OK(p.g.cuGraphLaunch(exec, b));
              OK(p.g.cuGraphDestroy(graph));
              OK(p.g.cuGraphExecDestroy(exec));
              IS(p.g.cuGraphLaunch(exec, a), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphExecDestroy(exec), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
              OK(p.cu.cuCtxSynchronize());
            }),
            0);
  EXPECT_EQ(truth().processes.at(0).held_ns, 12'000'000u);
}

TEST_F(Driver, AGraphOfAThousandNodesRunsThemAll) {
  EXPECT_EQ(run([] {
              Drawing p;
              const CUstream stream = p.stream();
              const CUgraph graph = p.graph();
              CUgraphNode last = p.kernel(graph, 10);
              for (int i = 1; i < 1000; ++i) last = p.kernel(graph, 10, {last});
              const CUgraphExec exec = p.exec(graph);
              for (int i = 0; i < 3; ++i) OK(p.g.cuGraphLaunch(exec, stream));
              OK(p.cu.cuStreamSynchronize(stream));
            }),
            0);
  EXPECT_EQ(truth().processes.at(0).kernels, 3000u);
  EXPECT_EQ(truth().processes.at(0).held_ns, 30'000'000u);
}

TEST_F(Driver, AThousandParallelNodesAllRun) {
  EXPECT_EQ(run([] {
              Drawing p;
              const CUstream stream = p.stream();
              const CUgraph graph = p.graph();
              for (int i = 0; i < 1000; ++i) p.kernel(graph, 10);
              OK(p.g.cuGraphLaunch(p.exec(graph), stream));
              OK(p.cu.cuStreamSynchronize(stream));
            }),
            0);
  EXPECT_EQ(truth().processes.at(0).kernels, 1000u);
}

TEST_F(Driver, NodesReturnTheirParametersFromTheirOwnCopy) {
  EXPECT_EQ(run([] {
              Drawing p;
              CUdeviceptr memory = 0;
              OK(p.cu.cuMemAlloc_v2(&memory, 4096));
              const CUgraph graph = p.graph();
              unsigned us = 25;
              void* parameters[] = {&us};
              KernelNodeParams given = Drawing::shape(p.us, parameters, 7), told{};
              CUgraphNode kernel = nullptr, copy = nullptr, fill = nullptr, host = nullptr;
              OK(p.g.cuGraphAddKernelNode_v2(&kernel, graph, nullptr, 0, &given));
              us = 99;
              OK(p.g.cuGraphKernelNodeGetParams_v2(kernel, &told));
              must(told.func == p.us && told.grid[0] == 7 && told.block[0] == 32 && told.context == p.context &&
                       *static_cast<unsigned*>(told.parameters[0]) == 25,
                   "other kernel parameters");
              CopyParams moved{}, moved_told{};
              unsigned target = 0;
              moved.from.type = 2;
              moved.from.device = memory;
              moved.to.type = 1;
              moved.to.host = &target;
              moved.width = 4;
              moved.height = moved.depth = 1;
              OK(p.g.cuGraphAddMemcpyNode(&copy, graph, nullptr, 0, &moved, p.context));
              OK(p.g.cuGraphMemcpyNodeGetParams(copy, &moved_told));
              must(std::memcmp(&moved, &moved_told, sizeof moved) == 0, "other copy parameters");
              const FillNodeParams set{memory, 0, 3, 4, 8, 1};
              FillNodeParams set_told{};
              OK(p.g.cuGraphAddMemsetNode(&fill, graph, &kernel, 1, &set, p.context));
              OK(p.g.cuGraphMemsetNodeGetParams(fill, &set_told));
              must(std::memcmp(&set, &set_told, sizeof set) == 0, "other fill parameters");
              const HostNodeParams call{[](void*) {}, &target};
              HostNodeParams call_told{};
              OK(p.g.cuGraphAddHostNode(&host, graph, &fill, 1, &call));
              OK(p.g.cuGraphHostNodeGetParams(host, &call_told));
              must(call_told.function == call.function && call_told.data == call.data, "other host parameters");
              int priority[16] = {-3}, priority_told[16] = {};
              OK(p.g.cuGraphKernelNodeSetAttribute(kernel, CU_LAUNCH_ATTRIBUTE_PRIORITY, priority));
              OK(p.g.cuGraphKernelNodeGetAttribute(kernel, CU_LAUNCH_ATTRIBUTE_PRIORITY, priority_told));
              must(priority_told[0] == -3, "another attribute");
              IS(p.g.cuGraphMemcpyNodeGetParams(kernel, &moved_told), CUDA_ERROR_INVALID_VALUE);
              CUgraph clone = nullptr;
              OK(p.g.cuGraphClone(&clone, graph));
              CUgraphNode twin = nullptr;
              OK(p.g.cuGraphNodeFindInClone(&twin, kernel, clone));
              OK(p.g.cuGraphDestroy(graph));
              OK(p.g.cuGraphKernelNodeGetParams_v2(twin, &told));
              must(*static_cast<unsigned*>(told.parameters[0]) == 25, "the clone lost its parameters");
              IS(p.g.cuGraphKernelNodeGetParams_v2(kernel, &told), CUDA_ERROR_INVALID_VALUE);
            }),
            0);
}

TEST_F(Driver, EdgesAreAddedAndRemovedButNeverInACycle) {
  EXPECT_EQ(run([] {
              Drawing p;
              const CUgraph graph = p.graph(), other = p.graph();
              const CUgraphNode a = p.kernel(graph, 1), b = p.kernel(graph, 1), c = p.kernel(graph, 1);
              const CUgraphNode foreign = p.kernel(other, 1);
              OK(p.g.cuGraphAddDependencies(graph, &a, &b, 1));
              OK(p.g.cuGraphAddDependencies(graph, &b, &c, 1));
              IS(p.g.cuGraphAddDependencies(graph, &a, &b, 1), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphAddDependencies(graph, &c, &a, 1), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphAddDependencies(graph, &a, &a, 1), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphAddDependencies(graph, &foreign, &a, 1), CUDA_ERROR_INVALID_VALUE);
              CUgraphNode made = nullptr;
              const CUgraphNode twice[] = {a, a};
              IS(p.g.cuGraphAddEmptyNode(&made, graph, twice, 2), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphAddEmptyNode(&made, graph, &foreign, 1), CUDA_ERROR_INVALID_VALUE);
              std::size_t count = 0;
              OK(p.g.cuGraphGetRootNodes(graph, nullptr, &count));
              must(count == 1, "not one root");
              OK(p.g.cuGraphRemoveDependencies(graph, &b, &c, 1));
              IS(p.g.cuGraphRemoveDependencies(graph, &b, &c, 1), CUDA_ERROR_INVALID_VALUE);
              OK(p.g.cuGraphDestroyNode(a));
              OK(p.g.cuGraphGetRootNodes(graph, nullptr, &count));
              must(count == 2, "not two roots");
              CUgraphNode list[4] = {a, a, a, a};
              count = 4;
              OK(p.g.cuGraphGetNodes(graph, list, &count));
              must(count == 2 && list[0] == b && list[2] == nullptr, "another list");
            }),
            0);
}

TEST_F(Driver, ChildGraphsAndEventsKeepTheOrder) {
  EXPECT_EQ(run([] {
              Drawing p;
              const CUstream stream = p.stream(), other = p.stream();
              const CUevent begun = p.event(), gate = p.event();
              const CUgraph inner = p.graph(), outer = p.graph();
              const CUgraphNode one = p.kernel(inner, 2000);
              p.kernel(inner, 3000);
              const CUgraphNode before = p.kernel(outer, 1000);
              CUgraphNode child = nullptr, record = nullptr, wait = nullptr;
              OK(p.g.cuGraphAddEventWaitNode(&wait, outer, &before, 1, gate));
              OK(p.g.cuGraphAddChildGraphNode(&child, outer, &wait, 1, inner));
              OK(p.g.cuGraphAddEventRecordNode(&record, outer, &child, 1, begun));
              p.kernel(outer, 1000, {record});
              CUgraph owned = nullptr;
              OK(p.g.cuGraphChildGraphNodeGetGraph(child, &owned));
              must(owned != inner && p.nodes(owned).size() == 2, "the child is not a copy");
              IS(p.g.cuGraphDestroy(owned), CUDA_ERROR_INVALID_VALUE);
              // Both streams start when all is queued, however long this machine takes for that.
              std::promise<void> queued;
              const CUevent start = p.event();
              OK(p.cu.cuLaunchHostFunc(
                  other, [](void* all) { static_cast<std::promise<void>*>(all)->get_future().wait(); }, &queued));
              OK(p.cu.cuEventRecord(start, other));
              OK(p.cu.cuStreamWaitEvent(stream, start, 0));
              p.run_us(10'000, other);
              OK(p.cu.cuEventRecord(gate, other));
              const CUgraphExec exec = p.exec(outer);
              OK(p.g.cuGraphLaunch(exec, stream));
              p.run_us(1000, other);
              queued.set_value();
              OK(p.cu.cuEventSynchronize(begun));
              OK(p.cu.cuStreamSynchronize(stream));
              // The child's nodes are found through the handles of the copy that its node owns.
              unsigned us = 7000;
              void* parameters[] = {&us};
              const KernelNodeParams longer = Drawing::shape(p.us, parameters);
              IS(p.g.cuGraphExecKernelNodeSetParams_v2(exec, one, &longer), CUDA_ERROR_INVALID_VALUE);
              OK(p.g.cuGraphExecKernelNodeSetParams_v2(exec, p.nodes(owned)[0], &longer));
              OK(p.g.cuGraphExecChildGraphNodeSetParams(exec, child, inner));
            }),
            0);
  // 10 ms beside the first kernel, then 3 ms beside 1 ms, then 1 ms.
  EXPECT_EQ(truth().processes.at(0).held_ns, 14'000'000u);
}

TEST_F(Driver, AnExecutableGraphTakesOnlyNewParameters) {
  EXPECT_EQ(run([] {
              Drawing p;
              const CUstream stream = p.stream();
              const CUgraph graph = p.graph(), longer = p.graph(), shaped = p.graph(), typed = p.graph();
              const CUgraphNode node = p.kernel(graph, 1000);
              p.kernel(graph, 1000, {node});
              const CUgraphExec exec = p.exec(graph);
              p.kernel(longer, 2000, {p.kernel(longer, 2000)});
              p.kernel(shaped, 1000);
              p.kernel(shaped, 1000);
              CUgraphNode empty = nullptr;
              const CUgraphNode first = p.kernel(typed, 1000);
              OK(p.g.cuGraphAddEmptyNode(&empty, typed, &first, 1));
              UpdateResultInfo info{};
              IS(p.g.cuGraphExecUpdate_v2(exec, shaped, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
              must(info.result == 2, "not a change of topology");
              IS(p.g.cuGraphExecUpdate_v2(exec, typed, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
              must(info.result == 3 && info.error_node == empty, "not a change of type");
              OK(p.g.cuGraphLaunch(exec, stream));  // 2 ms
              OK(p.g.cuGraphExecUpdate_v2(exec, longer, &info));
              must(info.result == 0, "not updated");
              OK(p.g.cuGraphLaunch(exec, stream));  // 4 ms
              unsigned us = 500;
              void* parameters[] = {&us};
              const KernelNodeParams shorter = Drawing::shape(p.us, parameters);
              OK(p.g.cuGraphExecKernelNodeSetParams_v2(exec, node, &shorter));
              OK(p.g.cuGraphLaunch(exec, stream));  // 2.5 ms
              OK(p.g.cuGraphNodeSetEnabled(exec, node, 0));
              OK(p.g.cuGraphLaunch(exec, stream));  // 2 ms
              OK(p.cu.cuStreamSynchronize(stream));
            }),
            0);
  EXPECT_EQ(truth().processes.at(0).held_ns, 10'500'000u);
}

TEST_F(Driver, ADestroyedContextEndsItsRunningGraphs) {
  EXPECT_EQ(run([] {
              Drawing p;
              const CUstream stream = p.stream();
              const CUgraph graph = p.graph();
              p.kernel(graph, 2000);
              p.kernel(graph, 2000);
              const CUgraphExec exec = p.exec(graph);
              OK(p.g.cuGraphLaunch(exec, stream));
              OK(p.cu.cuCtxDestroy_v2(p.context));
              IS(p.g.cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_HANDLE);
              OK(p.g.cuGraphExecDestroy(exec));
              OK(p.g.cuGraphDestroy(graph));
              Drawing again;
              const CUgraph next = again.graph();
              again.kernel(next, 1000);
              again.kernel(next, 1000);
              OK(again.g.cuGraphLaunch(again.exec(next), again.stream()));
              OK(again.cu.cuCtxSynchronize());
            }),
            0);
  EXPECT_EQ(truth().processes.at(0).kernels, 4u);
}

TEST_F(Driver, ALibraryIsAModuleInEachContextThatUsesIt) {
  EXPECT_EQ(run([] {
              Drawing p;
              void* driver = ::dlopen(HEADGATE_SIM_CUDA, RTLD_NOW);
              const auto get_kernel = reinterpret_cast<CUresult (*)(CUkernel*, CUlibrary, const char*)>(
                  ::dlsym(driver, "cuLibraryGetKernel"));
              const auto get_function =
                  reinterpret_cast<CUresult (*)(CUfunction*, CUkernel)>(::dlsym(driver, "cuKernelGetFunction"));
              CUlibrary library = nullptr;
              CUkernel kernel = nullptr, none = nullptr;
              OK(p.cu.cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
              OK(get_kernel(&kernel, library, "us"));
              IS(get_kernel(&none, library, "absent"), CUDA_ERROR_NOT_FOUND);
              const auto as_function = reinterpret_cast<CUfunction>(kernel);
              unsigned us = 2000;
              void* parameters[] = {&us};
              OK(p.cu.cuLaunchKernel(as_function, 1, 1, 1, 32, 1, 1, 0, p.stream(), parameters, nullptr));
              KernelNodeParams params = Drawing::shape(nullptr, parameters);
              params.kern = kernel;
              CUgraphNode node = nullptr;
              const CUgraph graph = p.graph();
              OK(p.g.cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &params));
              OK(p.cu.cuCtxSynchronize());
              OK(p.g.cuGraphLaunch(p.exec(graph), nullptr));
              CUfunction first = nullptr, second = nullptr;
              OK(get_function(&first, kernel));
              CUcontext other = nullptr;
              OK(p.cu.cuCtxCreate_v2(&other, 0, 0));
              OK(get_function(&second, kernel));
              must(first != second, "two contexts share a function");
              OK(p.cu.cuLaunchKernel(as_function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
              OK(p.cu.cuCtxSynchronize());
              OK(p.cu.cuLibraryUnload(library));
              IS(p.cu.cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
              IS(p.cu.cuLaunchKernel(as_function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr),
                 CUDA_ERROR_INVALID_HANDLE);
            }),
            0);
  EXPECT_EQ(truth().processes.at(0).kernels, 3u);
}

TEST_F(Driver, OccupancyFollowsTheProfile) {
  EXPECT_EQ(run([] {
              Drawing p;
              void* driver = ::dlopen(HEADGATE_SIM_CUDA, RTLD_NOW);
              const auto best =
                  reinterpret_cast<CUresult (*)(int*, int*, CUfunction, std::size_t (*)(int), std::size_t, int)>(
                      ::dlsym(driver, "cuOccupancyMaxPotentialBlockSize"));
              int grid = 0, block = 0, blocks = 0;
              OK(best(&grid, &block, p.us, nullptr, 0, 0));
              OK(p.cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, p.us, block, 0));
              must(block == 1024 && blocks == 2 && grid == 2 * 132, message("block ", block, ", blocks ", blocks));
              OK(best(&grid, &block, p.us, nullptr, 0, 100));
              must(block == 64, message("block ", block, " under a limit of 100"));
              IS(best(nullptr, &block, p.us, nullptr, 0, 0), CUDA_ERROR_INVALID_VALUE);
              IS(best(&grid, &block, nullptr, nullptr, 0, 0), CUDA_ERROR_INVALID_HANDLE);
              IS(p.cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, p.us, 0, 0), CUDA_ERROR_INVALID_VALUE);
            }),
            0);
}

TEST_F(Driver, BadArgumentsOfGraphCallsAreRefused) {
  EXPECT_EQ(run([] {
              Drawing p;
              const CUgraph graph = p.graph();
              CUgraphNode node = nullptr;
              CUgraphExec exec = nullptr;
              CUgraph made = nullptr;
              auto* junk = reinterpret_cast<CUgraph>(&node);
              IS(p.g.cuGraphCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphCreate(&made, 1), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphDestroy(nullptr), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphDestroy(junk), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphAddKernelNode_v2(&node, graph, nullptr, 3, nullptr), CUDA_ERROR_INVALID_VALUE);
              KernelNodeParams params = Drawing::shape(p.us, nullptr);
              IS(p.g.cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
              params.func = nullptr;
              IS(p.g.cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
              const FillNodeParams nowhere{0x1000, 0, 0, 4, 8, 1};
              IS(p.g.cuGraphAddMemsetNode(&node, graph, nullptr, 0, &nowhere, p.context), CUDA_ERROR_INVALID_VALUE);
              const HostNodeParams nobody{};
              IS(p.g.cuGraphAddHostNode(&node, graph, nullptr, 0, &nobody), CUDA_ERROR_INVALID_VALUE);
              AnyNodeParams semaphores{};
              semaphores.type = NodeType::wait_semaphores;
              IS(p.g.cuGraphAddNode_v2(&node, graph, nullptr, nullptr, 0, &semaphores), CUDA_ERROR_NOT_SUPPORTED);
              IS(p.g.cuGraphInstantiateWithFlags(nullptr, graph, 0), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphInstantiateWithFlags(&exec, graph, 64), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphLaunch(nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
              must(p.nodes(graph).empty(), "a refused node is there");
              OK(p.g.cuGraphLaunch(p.exec(graph), nullptr));  // launching an empty graph succeeds
              OK(p.cu.cuCtxSynchronize());
            }),
            0);
}

}  // namespace
}  // namespace headgate::sim
