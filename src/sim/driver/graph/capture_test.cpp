// Stream capture on the simulated driver: which calls become nodes, what joins, what breaks a capture in which mode.
#include "sim/driver/graph/test_graph_program.hpp"

namespace headgate::sim {
namespace {

struct Capturing : Drawing {
  CUstream main = stream();

  void begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) { OK(cu.cuStreamBeginCapture_v2(main, mode)); }
  CUgraph finish() {
    CUgraph graph = nullptr;
    OK(cu.cuStreamEndCapture(main, &graph));
    return graph;
  }
  void finish_as(CUresult wanted) {
    CUgraph graph = reinterpret_cast<CUgraph>(1);
    IS(cu.cuStreamEndCapture(main, &graph), wanted);
    must(graph == nullptr, "a broken capture gave a graph");
    IS(cu.cuStreamEndCapture(main, &graph), CUDA_ERROR_ILLEGAL_STATE);
  }
  CUstreamCaptureStatus status(CUstream of) {
    CUstreamCaptureStatus found{};
    OK(cu.cuStreamIsCapturing(of, &found));
    return found;
  }
};

TEST_F(Driver, ACapturedStreamBecomesAGraphAndRunsNothing) {
  EXPECT_EQ(
      run([] {
        Capturing p;
        CUdeviceptr memory = 0;
        OK(p.cu.cuMemAlloc_v2(&memory, 4096));
        unsigned source = 7, target = 0;
        int calls = 0;
        p.begin();
        OK(p.cu.cuMemcpyHtoDAsync_v2(memory, &source, 4, p.main));
        p.run_us(1000, p.main);
        OK(p.cu.cuMemsetD32Async(memory + 4, 5, 3, p.main));
        OK(p.cu.cuLaunchHostFunc(p.main, [](void* count) { ++*static_cast<int*>(count); }, &calls));
        OK(p.cu.cuMemcpyDtoHAsync_v2(&target, memory, 4, p.main));
        must(p.status(p.main) == CU_STREAM_CAPTURE_STATUS_ACTIVE, "not capturing");
        const CUgraph graph = p.finish();
        must(p.status(p.main) == CU_STREAM_CAPTURE_STATUS_NONE, "still capturing");
        const auto nodes = p.nodes(graph);
        std::vector<NodeType> types;
        for (const CUgraphNode node : nodes) types.push_back(p.type(node));
        must(types == std::vector{NodeType::copy, NodeType::kernel, NodeType::fill, NodeType::host, NodeType::copy},
             "other nodes");
        std::size_t edges = 0;
        OK(p.g.cuGraphGetEdges(graph, nullptr, nullptr, &edges));
        must(edges == 4, "not one after the other");
        OK(p.cu.cuStreamSynchronize(p.main));
        must(calls == 0, "a captured call ran");
        source = 9;  // read when the graph runs, not at capture
        const CUgraphExec exec = p.exec(graph);
        for (int i = 0; i < 2; ++i) OK(p.g.cuGraphLaunch(exec, p.main));
        OK(p.cu.cuStreamSynchronize(p.main));
        must(calls == 2 && target == 9, "the graph did not run");
        unsigned filled[4] = {};
        OK(p.cu.cuMemcpyDtoH_v2(filled, memory, 16));
        must(filled[0] == 9 && filled[1] == 5 && filled[3] == 5, "other bytes");
        OK(p.g.cuGraphExecDestroy(exec));
        OK(p.g.cuGraphDestroy(graph));
      }),
      0);
  EXPECT_EQ(truth().processes.at(0).held_ns, 2'000'000u);
  EXPECT_EQ(truth().processes.at(0).kernels, 2u);
}

TEST_F(Driver, StreamsJoinACaptureByEventsAndMustReturn) {
  EXPECT_EQ(run([] {
              Capturing p;
              const CUstream side = p.stream();
              const CUevent fork = p.event(), join = p.event();
              for (const bool joined : {true, false}) {
                p.begin();
                p.run_us(10, p.main);
                OK(p.cu.cuEventRecord(fork, p.main));
                OK(p.cu.cuStreamWaitEvent(side, fork, 0));
                must(p.status(side) == CU_STREAM_CAPTURE_STATUS_ACTIVE, "the side stream did not join");
                p.run_us(20, side);
                OK(p.cu.cuEventRecord(join, side));
                if (!joined) {
                  p.run_us(10, p.main);
                  p.finish_as(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
                  continue;
                }
                OK(p.cu.cuStreamWaitEvent(p.main, join, 0));
                p.run_us(10, p.main);
                const CUgraph graph = p.finish();
                const auto nodes = p.nodes(graph);
                must(nodes.size() == 3, "not three kernels");
                std::size_t count = 8;
                CUgraphNode before[8] = {};
                OK(p.g.cuGraphNodeGetDependencies(nodes[2], before, &count));
                must(count == 2 && before[0] == nodes[0] && before[1] == nodes[1], "the last does not come after both");
              }
              must(p.status(side) == CU_STREAM_CAPTURE_STATUS_NONE, "the side stream captures on");
            }),
            0);
}

TEST_F(Driver, AnUnsafeCallBreaksOnlyTheCapturesThatForbidIt) {
  EXPECT_EQ(run([] {
              struct Case {
                CUstreamCaptureMode capture, thread;
                bool same_thread, forbidden;
              };
              constexpr auto kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL, kLocal = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                             kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
              constexpr Case kCases[] = {
                  {kGlobal, kGlobal, true, true},  {kGlobal, kGlobal, false, true},  {kGlobal, kLocal, true, true},
                  {kGlobal, kLocal, false, false}, {kGlobal, kRelaxed, true, false}, {kGlobal, kRelaxed, false, false},
                  {kLocal, kGlobal, true, true},   {kLocal, kGlobal, false, false},  {kLocal, kLocal, true, true},
                  {kLocal, kRelaxed, true, false}, {kRelaxed, kGlobal, true, false}, {kRelaxed, kGlobal, false, false},
              };
              Capturing p;
              const CUevent old = p.event();
              OK(p.cu.cuEventRecord(old, p.main));
              OK(p.cu.cuStreamSynchronize(p.main));
              for (const Case& c : kCases) {
                p.begin(c.capture);
                p.run_us(1, p.main);
                const auto ask = [&] {
                  OK(p.cu.cuCtxSetCurrent(p.context));
                  CUstreamCaptureMode mode = c.thread;
                  OK(p.cu.cuThreadExchangeStreamCaptureMode(&mode));
                  CUdeviceptr memory = 0;
                  const CUresult asked = p.cu.cuEventQuery(old);
                  const CUresult allocated = p.cu.cuMemAlloc_v2(&memory, 4096);
                  OK(p.cu.cuThreadExchangeStreamCaptureMode(&mode));
                  const CUresult wanted = c.forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
                  return asked == wanted && allocated == wanted;
                };
                bool right = false;
                if (c.same_thread) right = ask();
                else std::thread([&] { right = ask(); }).join();
                must(right, message("capture mode ", c.capture, ", thread mode ", c.thread, c.same_thread));
                if (c.forbidden) p.finish_as(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
                else OK(p.g.cuGraphDestroy(p.finish()));
              }
            }),
            0);
}

TEST_F(Driver, ABrokenCaptureIsInvalidatedUntilItsEnd) {
  EXPECT_EQ(run([] {
              Capturing p;
              p.begin();
              IS(p.cu.cuStreamSynchronize(p.main), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
              must(p.status(p.main) == CU_STREAM_CAPTURE_STATUS_INVALIDATED, "not invalidated");
              unsigned us = 1;
              void* parameters[] = {&us};
              IS(p.cu.cuLaunchKernel(p.us, 1, 1, 1, 32, 1, 1, 0, p.main, parameters, nullptr),
                 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
              p.finish_as(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
              p.run_us(1, p.main);
              OK(p.cu.cuStreamSynchronize(p.main));
            }),
            0);
}

TEST_F(Driver, AConflictWithACaptureBreaksItInEveryMode) {
  EXPECT_EQ(run([] {
              Capturing p;
              const CUevent outside = p.event(), inside = p.event(), elsewhere = p.event();
              const CUstream other = p.stream();
              OK(p.cu.cuEventRecord(outside, other));
              const auto broken_by = [&](CUresult wanted, const std::function<CUresult()>& call) {
                p.begin(CU_STREAM_CAPTURE_MODE_RELAXED);
                OK(p.cu.cuEventRecord(inside, p.main));
                IS(call(), wanted);
                p.finish_as(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
              };
              broken_by(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [&] { return p.cu.cuCtxSynchronize(); });
              broken_by(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [&] { return p.cu.cuStreamQuery(p.main); });
              unsigned long long id = 0;
              unsigned flags = 0;
              broken_by(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [&] { return p.cu.cuStreamGetId(p.main, &id); });
              broken_by(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [&] { return p.cu.cuStreamGetFlags(p.main, &flags); });
              broken_by(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                        [&] { return p.cu.cuStreamWaitEvent(p.main, outside, 0); });
              broken_by(CUDA_ERROR_STREAM_CAPTURE_MERGE, [&] {
                OK(p.cu.cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED));
                OK(p.cu.cuEventRecord(elsewhere, other));
                const CUresult answer = p.cu.cuStreamWaitEvent(p.main, elsewhere, 0);
                CUgraph graph = nullptr;
                IS(p.cu.cuStreamEndCapture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
                return answer;
              });
              // An event recorded in a capture is unusable outside it. Querying it breaks nothing in relaxed mode.
              p.begin(CU_STREAM_CAPTURE_MODE_RELAXED);
              OK(p.cu.cuEventRecord(inside, p.main));
              IS(p.cu.cuEventQuery(inside), CUDA_ERROR_CAPTURED_EVENT);
              OK(p.g.cuGraphDestroy(p.finish()));
              IS(p.cu.cuEventSynchronize(inside), CUDA_ERROR_CAPTURED_EVENT);
              OK(p.cu.cuEventRecord(inside, p.main));
              OK(p.cu.cuEventSynchronize(inside));
            }),
            0);
}

TEST_F(Driver, TheLegacyStreamMayNotTouchACapturingStream) {
  EXPECT_EQ(run([] {
              Capturing p;
              unsigned us = 1;
              void* parameters[] = {&us};
              IS(p.cu.cuStreamBeginCapture_v2(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL),
                 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
              p.begin(CU_STREAM_CAPTURE_MODE_RELAXED);  // on a non-blocking stream
              p.run_us(1, nullptr);
              OK(p.g.cuGraphDestroy(p.finish()));
              p.main = p.stream(0);
              p.begin(CU_STREAM_CAPTURE_MODE_RELAXED);
              CUstreamCaptureStatus status{};
              IS(p.cu.cuStreamIsCapturing(nullptr, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
              must(p.status(p.main) == CU_STREAM_CAPTURE_STATUS_ACTIVE, "asking broke the capture");
              IS(p.cu.cuLaunchKernel(p.us, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr),
                 CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
              p.finish_as(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
            }),
            0);
}

TEST_F(Driver, ACaptureEndsOnItsStreamAndThread) {
  EXPECT_EQ(run([] {
              Capturing p;
              CUgraph graph = nullptr;
              IS(p.cu.cuStreamEndCapture(p.main, &graph), CUDA_ERROR_ILLEGAL_STATE);
              p.begin();
              IS(p.cu.cuStreamBeginCapture_v2(p.main, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_ILLEGAL_STATE);
              CUresult elsewhere = CUDA_SUCCESS;
              const auto end = [&] {
                OK(p.cu.cuCtxSetCurrent(p.context));
                elsewhere = p.cu.cuStreamEndCapture(p.main, &graph);
              };
              std::thread(end).join();
              is(elsewhere, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread's end");
              OK(p.g.cuGraphDestroy(p.finish()));
              p.begin(CU_STREAM_CAPTURE_MODE_RELAXED);
              std::thread(end).join();
              is(elsewhere, CUDA_SUCCESS, "another thread's end, relaxed");
              const CUstream side = p.stream();
              const CUevent fork = p.event();
              p.begin();
              OK(p.cu.cuEventRecord(fork, p.main));
              OK(p.cu.cuStreamWaitEvent(side, fork, 0));
              IS(p.cu.cuStreamEndCapture(side, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
              p.finish_as(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
              p.begin();
              OK(p.cu.cuStreamDestroy_v2(p.main));  // ends the capture too
              p.main = p.stream();
              p.begin();
              OK(p.g.cuGraphDestroy(p.finish()));
            }),
            0);
}

TEST_F(Driver, ACaptureExtendsAnExistingGraph) {
  EXPECT_EQ(
      run([] {
        Capturing p;
        const CUgraph graph = p.graph();
        const CUgraphNode first = p.kernel(graph, 10), apart = p.kernel(graph, 10);
        OK(p.cu.cuStreamBeginCaptureToGraph(p.main, graph, &first, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
        p.run_us(5, p.main);
        OK(p.cu.cuStreamUpdateCaptureDependencies(p.main, const_cast<CUgraphNode*>(&apart), 1, 0));
        CUstreamCaptureStatus status{};
        cuuint64_t id = 0;
        CUgraph into = nullptr;
        const CUgraphNode* behind = nullptr;
        std::size_t count = 0;
        OK(p.cu.cuStreamGetCaptureInfo_v2(p.main, &status, &id, &into, &behind, &count));
        must(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id != 0 && into == graph && count == 2 && behind[1] == apart,
             "the driver reports another capture");
        p.run_us(5, p.main);
        must(p.finish() == graph, "another graph");
        const auto nodes = p.nodes(graph);
        must(nodes.size() == 4, "not two nodes more");
        CUgraphNode before[4] = {};
        count = 4;
        OK(p.g.cuGraphNodeGetDependencies(nodes[2], before, &count));
        must(count == 1 && before[0] == first, "the captured kernel is not behind the named node");
        count = 4;
        OK(p.g.cuGraphNodeGetDependencies(nodes[3], before, &count));
        must(count == 2 && before[1] == apart, "the second is not behind the added one");
      }),
      0);
}

TEST_F(Driver, ADependentLaunchIsCapturedAsAProgrammaticEdge) {
  EXPECT_EQ(run([] {
              Capturing p;
              unsigned us = 100;
              void* parameters[] = {&us};
              CUlaunchAttribute early{};
              early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
              early.value.programmaticStreamSerializationAllowed = 1;
              CUlaunchConfig config{1, 1, 1, 32, 1, 1, 0, p.main, &early, 1};
              p.begin();
              for (int i = 0; i < 3; ++i) OK(p.cu.cuLaunchKernelEx(&config, p.us, parameters, nullptr));
              const CUgraph graph = p.finish();
              std::size_t count = 4;
              CUgraphNode from[4] = {}, to[4] = {};
              IS(p.g.cuGraphGetEdges(graph, from, to, &count), CUDA_ERROR_LOSSY_QUERY);
              EdgeData data[4] = {};
              OK(p.g.cuGraphGetEdges_v2(graph, from, to, data, &count));
              must(count == 2 && data[0].type == 1 && data[0].from_port == 1, "plain edges");
              OK(p.g.cuGraphLaunch(p.exec(graph), p.main));
              OK(p.cu.cuStreamSynchronize(p.main));
            }),
            0);
  EXPECT_EQ(truth().processes.at(0).overlaps, 2u);
  EXPECT_EQ(truth().processes.at(0).held_ns, 300'000u - 2 * 3'000u);
}

}  // namespace
}  // namespace headgate::sim
