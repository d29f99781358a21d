// A program that uses graphs, one subcommand per pattern; prints one line per fact. Knows nothing of the limiter.
//
// dump MODE [quiet]                captures in that mode (0 global, 1 thread-local, 2 relaxed) and prints the graph by
//                                  node and edge. Without `quiet`, another thread launches meanwhile
// broken                           breaks captures in every way, and prints each result
// busy NODES US BRANCHES COUNT     a graph of NODES kernels on BRANCHES branches, launched COUNT times
// kinds WHICH COUNT                one way to put work on the GPU, COUNT times
// host COUNT                       graphs with a host node that waits for another thread's launch
// dependent ROUNDS CHAIN           chains of programmatic dependent launches, queued before the first may run
// lives COUNT                      graphs are made, launched and destroyed while they run; the last with its context
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sim/driver/graph/test_graph_calls.hpp"
#include "support/driver_call.hpp"
#include "support/stalled.hpp"

using namespace headgate::sim;
using headgate::e2e::say_launched;

namespace {

constexpr unsigned kDeadlineSeconds = 60;
constexpr char kPtx[] = R"(.version 8.0
.target sm_89
.address_size 64
.visible .entry us(.param .u32 us_0) { .pragma "headgate.sim.us param0"; ret; }
.visible .entry loop(.param .u64 handle, .param .u32 rounds) {
  .pragma "headgate.sim.us 25", "headgate.sim.countdown param0 param1"; ret; }
)";

void ok(const char* what, CUresult result) {
  if (result == CUDA_SUCCESS) return;
  std::printf("%s answered %u\n", what, static_cast<unsigned>(result));
  std::fflush(stdout);
  std::_Exit(4);
}
#define OK(name, ...) ok(#name, CALL(name)(__VA_ARGS__))

struct Gpu {
  CUcontext context = nullptr;
  CUfunction us = nullptr, loop = nullptr;
  GraphCalls g{::dlopen("libcuda.so.1", RTLD_NOW)};

  Gpu() {
    CUmodule module = nullptr;
    OK(cuInit, 0);
    OK(cuCtxCreate_v2, &context, 0, 0);
    OK(cuModuleLoadData, &module, kPtx);
    OK(cuModuleGetFunction, &us, module, "us");
    OK(cuModuleGetFunction, &loop, module, "loop");
  }
  CUgraphNode node(CUgraph graph, unsigned us_each, const CUgraphNode* behind, std::size_t count) const {
    void* parameters[] = {&us_each};
    KernelNodeParams params{};
    params.func = us;
    for (int i = 0; i < 3; ++i) params.grid[i] = params.block[i] = 1;
    params.parameters = parameters;
    CUgraphNode made = nullptr;
    ok("cuGraphAddKernelNode", g.cuGraphAddKernelNode_v2(&made, graph, behind, count, &params));
    return made;
  }
  // One node for the caller: a body with a kernel that runs `rounds` times.
  CUgraphExec looping(unsigned rounds) const {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    CUgraphNode node = nullptr;
    cuuint64_t handle = 0;
    ok("cuGraphCreate", g.cuGraphCreate(&graph, 0));
    ok("cuGraphConditionalHandleCreate", g.cuGraphConditionalHandleCreate(&handle, graph, context, 1, 1));
    AnyNodeParams loops{};
    loops.type = NodeType::conditional;
    loops.conditional = {handle, 1, 1, nullptr, context};
    ok("cuGraphAddNode",
       CALL(cuGraphAddNode_v2)(&node, graph, nullptr, nullptr, 0, reinterpret_cast<CUgraphNodeParams*>(&loops)));
    void* parameters[] = {&handle, &rounds};
    KernelNodeParams params{};
    params.func = loop;
    for (int i = 0; i < 3; ++i) params.grid[i] = params.block[i] = 1;
    params.parameters = parameters;
    ok("cuGraphAddKernelNode", g.cuGraphAddKernelNode_v2(&node, loops.conditional.bodies[0], nullptr, 0, &params));
    OK(cuGraphInstantiateWithFlags, &exec, graph, 0);
    return exec;
  }
  // Concurrent branches, each a chain of nodes.
  CUgraphExec exec(unsigned nodes, unsigned us_each, unsigned branches) const {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    ok("cuGraphCreate", g.cuGraphCreate(&graph, 0));
    std::vector<CUgraphNode> last(branches);
    for (unsigned i = 0; i < nodes; ++i) {
      CUgraphNode& tail = last[i % branches];
      tail = node(graph, us_each, &tail, tail == nullptr ? 0 : 1);
    }
    ok("cuGraphInstantiate", g.cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok("cuGraphDestroy", g.cuGraphDestroy(graph));
    return exec;
  }
};

CUstream new_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  OK(cuStreamCreate, &stream, flags);
  return stream;
}
CUevent new_event() {
  CUevent event = nullptr;
  OK(cuEventCreate, &event, 0);
  return event;
}
void launch(CUfunction kernel, unsigned us, CUstream stream) {
  void* parameters[] = {&us};
  OK(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
}
CUresult launch_dependent(CUfunction kernel, unsigned us, CUstream stream) {
  void* parameters[] = {&us};
  CUlaunchAttribute overlap{};
  overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  overlap.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{1, 1, 1, 1, 1, 1, 0, stream, &overlap, 1};
  return CALL(cuLaunchKernelEx)(&config, kernel, parameters, nullptr);
}

void wait_for_stdin() {
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

void print_graph(const Gpu& gpu, CUgraph graph, CUdeviceptr base, const std::string& indent) {
  std::size_t count = 0;
  ok("cuGraphGetNodes", gpu.g.cuGraphGetNodes(graph, nullptr, &count));
  std::vector<CUgraphNode> nodes(count);
  ok("cuGraphGetNodes", gpu.g.cuGraphGetNodes(graph, nodes.data(), &count));
  const auto place = [&](CUgraphNode node) {
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i] == node) return static_cast<int>(i);
    return -1;
  };
  for (std::size_t i = 0; i < count; ++i) {
    NodeType type{};
    ok("cuGraphNodeGetType", gpu.g.cuGraphNodeGetType(nodes[i], &type));
    std::printf("%snode %zu type %u", indent.c_str(), i, static_cast<unsigned>(type));
    KernelNodeParams kernel{};
    CopyParams copy{};
    FillNodeParams fill{};
    CUgraph child = nullptr;
    switch (type) {
      case NodeType::kernel:
        ok("params", gpu.g.cuGraphKernelNodeGetParams_v2(nodes[i], &kernel));
        std::printf(" us %d grid %u block %u shared %u parameter %u", kernel.func == gpu.us, kernel.grid[0],
                    kernel.block[0], kernel.shared, *static_cast<unsigned*>(kernel.parameters[0]));
        break;
      case NodeType::copy:
        ok("params", gpu.g.cuGraphMemcpyNodeGetParams(nodes[i], &copy));
        std::printf(" from %u at %llu to %u at %llu width %zu", copy.from.type,
                    copy.from.type == 2 ? copy.from.device - base : 0, copy.to.type,
                    copy.to.type == 2 ? copy.to.device - base : 0, copy.width);
        break;
      case NodeType::fill:
        ok("params", gpu.g.cuGraphMemsetNodeGetParams(nodes[i], &fill));
        std::printf(" at %llu value %u of %u times %zu", fill.to - base, fill.value, fill.element_bytes, fill.width);
        break;
      case NodeType::child:
        std::printf("\n");
        ok("child", gpu.g.cuGraphChildGraphNodeGetGraph(nodes[i], &child));
        print_graph(gpu, child, base, indent + "  ");
        continue;
      default: break;
    }
    std::printf("\n");
  }
  ok("edges", gpu.g.cuGraphGetEdges_v2(graph, nullptr, nullptr, nullptr, &count));
  std::vector<CUgraphNode> from(count), to(count);
  std::vector<EdgeData> data(count);
  if (count != 0) ok("edges", gpu.g.cuGraphGetEdges_v2(graph, from.data(), to.data(), data.data(), &count));
  for (std::size_t i = 0; i < count; ++i)
    std::printf("%sedge %d %d type %u port %u\n", indent.c_str(), place(from[i]), place(to[i]), data[i].type,
                data[i].from_port);
}

int dump(unsigned mode, bool quiet) {
  const Gpu gpu;
  CUdeviceptr memory = 0;
  OK(cuMemAlloc_v2, &memory, 4096);
  const CUstream main = new_stream(), side = new_stream(), other = new_stream();
  const CUevent fork = new_event(), join = new_event();
  const CUgraphExec part = gpu.exec(3, 5, 2), others = gpu.exec(3, 5, 2);
  unsigned host = 7;
  // The limit applies, so the gate is shut and brackets open and close all the time.
  for (int i = 0; i < 100; ++i) launch(gpu.us, 200, i % 2 == 0 ? main : side);
  std::atomic<bool> over{false};
  std::atomic<int> launched{0};
  std::thread second([&] {
    OK(cuCtxSetCurrent, gpu.context);
    while (!over && !quiet) {
      launch(gpu.us, 50, other);
      ok("cuGraphLaunch", gpu.g.cuGraphLaunch(others, other));
      ++launched;
    }
  });
  while (!quiet && launched < 3) std::this_thread::yield();
  for (int round = 0; round < 5; ++round) {
    OK(cuStreamBeginCapture_v2, main, static_cast<CUstreamCaptureMode>(mode));
    launch(gpu.us, 10, main);
    for (int i = 0; i < 3; ++i) ok("cuLaunchKernelEx", launch_dependent(gpu.us, 11, main));
    OK(cuEventRecord, fork, main);
    OK(cuStreamWaitEvent, side, fork, 0);
    OK(cuMemcpyHtoDAsync_v2, memory, &host, 4, side);
    for (unsigned i = 0; i < 20; ++i) {
      launch(gpu.us, 20 + i, main);
      launch(gpu.us, 50 + i, side);
    }
    OK(cuMemsetD32Async, memory + 64, 3, 16, main);
    OK(cuLaunchHostFunc, main, [](void*) {}, nullptr);
    ok("cuGraphLaunch", gpu.g.cuGraphLaunch(part, side));
    OK(cuMemcpyDtoHAsync_v2, &host, memory + 64, 4, main);
    OK(cuEventRecord, join, side);
    OK(cuStreamWaitEvent, main, join, 0);
    launch(gpu.us, 99, main);
    const int before = launched;
    while (!quiet && launched < before + 2) std::this_thread::yield();  // the other thread continues meanwhile
    CUgraph graph = nullptr;
    OK(cuStreamEndCapture, main, &graph);
    std::printf("round %d\n", round);
    print_graph(gpu, graph, memory, "");
    CUgraphExec exec = nullptr;
    ok("cuGraphInstantiate", gpu.g.cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok("cuGraphLaunch", gpu.g.cuGraphLaunch(exec, main));
    launch(gpu.us, 100, main);
    ok("cuGraphExecDestroy", gpu.g.cuGraphExecDestroy(exec));
    ok("cuGraphDestroy", gpu.g.cuGraphDestroy(graph));
  }
  over = true;
  second.join();
  OK(cuCtxSynchronize);
  std::printf("host %u\nend\n", host);
  return 0;
}

int broken() {
  const Gpu gpu;
  const CUstream main = new_stream(), blocking = new_stream(0), side = new_stream();
  const CUevent outside = new_event(), fork = new_event();
  for (int i = 0; i < 50; ++i) launch(gpu.us, 100, i % 2 == 0 ? main : side);
  OK(cuEventRecord, outside, side);
  const auto attempt = [&](const char* what, CUstream stream, unsigned mode, const std::function<CUresult()>& call) {
    OK(cuStreamBeginCapture_v2, stream, static_cast<CUstreamCaptureMode>(mode));
    launch(gpu.us, 10, stream);
    const CUresult answer = call();
    CUgraph graph = nullptr;
    const CUresult end = CALL(cuStreamEndCapture)(stream, &graph);
    std::printf("%s, mode %u: %u, then %u, graph %d\n", what, mode, static_cast<unsigned>(answer),
                static_cast<unsigned>(end), graph != nullptr);
    if (graph != nullptr) ok("cuGraphDestroy", gpu.g.cuGraphDestroy(graph));
    // After any broken capture, the stream works normally.
    for (int i = 0; i < 20; ++i) launch(gpu.us, 100, stream);
    OK(cuStreamSynchronize, stream);
  };
  unsigned us = 10;
  void* parameters[] = {&us};
  const auto kernel = [&](CUstream on) {
    return CALL(cuLaunchKernel)(gpu.us, 1, 1, 1, 1, 1, 1, 0, on, parameters, nullptr);
  };
  CUdeviceptr memory = 0;
  for (unsigned mode = 0; mode < 3; ++mode) {
    attempt("nothing", main, mode, [] { return CUDA_SUCCESS; });
    attempt("synchronise it", main, mode, [&] { return CALL(cuStreamSynchronize)(main); });
    attempt("query another", main, mode, [&] { return CALL(cuStreamQuery)(side); });
    attempt("query an event", main, mode, [&] { return CALL(cuEventQuery)(outside); });
    attempt("wait for an outside event", main, mode, [&] { return CALL(cuStreamWaitEvent)(main, outside, 0); });
    attempt("allocate", main, mode, [&] { return CALL(cuMemAlloc_v2)(&memory, 4096); });
    attempt("launch beside a blocking one", blocking, mode, [&] { return kernel(nullptr); });
    attempt("launch beside a non-blocking one", main, mode, [&] { return kernel(nullptr); });
    attempt("leave a stream unjoined", main, mode, [&] {
      OK(cuEventRecord, fork, main);
      OK(cuStreamWaitEvent, side, fork, 0);
      return kernel(side);
    });
    attempt("end it elsewhere", main, mode, [&] {
      OK(cuEventRecord, fork, main);
      OK(cuStreamWaitEvent, side, fork, 0);
      CUgraph graph = nullptr;
      return CALL(cuStreamEndCapture)(side, &graph);
    });
    attempt("begin again", main, mode,
            [&] { return CALL(cuStreamBeginCapture_v2)(main, CU_STREAM_CAPTURE_MODE_GLOBAL); });
  }
  // Destroying a stream ends its capture. Work was metered before it and is metered after.
  const CUstream dying = new_stream();
  OK(cuStreamBeginCapture_v2, dying, CU_STREAM_CAPTURE_MODE_GLOBAL);
  OK(cuStreamDestroy_v2, dying);
  OK(cuStreamSynchronize, main);
  std::printf("end\n");
  return 0;
}

int busy(unsigned nodes, unsigned us, unsigned branches, int count) {
  const Gpu gpu;
  const CUgraphExec exec = gpu.exec(nodes, us, branches);
  const CUstream stream = new_stream();
  for (int i = 0; i < count; ++i) ok("cuGraphLaunch", gpu.g.cuGraphLaunch(exec, stream));
  OK(cuStreamSynchronize, stream);
  say_launched();
  wait_for_stdin();
  return 0;
}

int kinds(int which, int count) {
  const Gpu gpu;
  const CUstream stream = new_stream();
  const CUgraphExec exec = gpu.exec(4, 25, 1), loop = gpu.looping(4);
  const std::function<void()> calls[] = {
      [&] { OK(cuGraphLaunch, exec, stream); },
      [&] { OK(cuGraphLaunch, exec, nullptr); },
      [&] { OK(cuGraphLaunch_ptsz, exec, nullptr); },
      [&] { ok("cuLaunchKernelEx", launch_dependent(gpu.us, 100, stream)); },
      [&] {
        OK(cuGraphUpload, exec, stream);
        OK(cuGraphLaunch, exec, stream);
      },
      [&] { OK(cuGraphLaunch, loop, stream); },
  };
  for (int i = 0; i < count; ++i) calls[which]();
  OK(cuCtxSynchronize);
  say_launched();
  wait_for_stdin();
  return 0;
}

struct Turns {
  std::mutex lock;
  std::condition_variable moved;
  int allowed = 0, begun = 0;
};

int host(int count) {
  const Gpu gpu;
  const CUstream stream = new_stream(), other = new_stream();
  Turns turns;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode wait = nullptr;
  ok("cuGraphCreate", gpu.g.cuGraphCreate(&graph, 0));
  const CUgraphNode first = gpu.node(graph, 500, nullptr, 0);
  const HostNodeParams blocks{[](void* data) {
                                auto& all = *static_cast<Turns*>(data);
                                std::unique_lock guard(all.lock);
                                const int mine = ++all.begun;
                                all.moved.notify_all();
                                all.moved.wait(guard, [&] { return all.allowed >= mine; });
                              },
                              &turns};
  ok("cuGraphAddHostNode", gpu.g.cuGraphAddHostNode(&wait, graph, &first, 1, &blocks));
  gpu.node(graph, 500, &wait, 1);
  ok("cuGraphInstantiate", gpu.g.cuGraphInstantiateWithFlags(&exec, graph, 0));
  // Each host node waits until this thread's kernels, launched after it, have completed.
  std::thread second([&] {
    OK(cuCtxSetCurrent, gpu.context);
    for (int i = 1; i <= count; ++i) {
      {
        std::unique_lock guard(turns.lock);
        turns.moved.wait(guard, [&] { return turns.begun >= i; });
      }
      for (int k = 0; k < 5; ++k) launch(gpu.us, 300, other);
      OK(cuStreamSynchronize, other);
      const std::lock_guard guard(turns.lock);
      turns.allowed = i;
      turns.moved.notify_all();
    }
  });
  for (int i = 0; i < count; ++i) ok("cuGraphLaunch", gpu.g.cuGraphLaunch(exec, stream));
  second.join();
  OK(cuCtxSynchronize);
  std::printf("end\n");
  return 0;
}

int dependent(int rounds, int chain) {
  const Gpu gpu;
  const CUstream stream = new_stream(), other = new_stream();
  CUdeviceptr flag = 0;
  OK(cuMemAlloc_v2, &flag, 8);
  OK(cuMemsetD32_v2, flag, 0, 2);
  OK(cuCtxSynchronize);
  for (int i = 0; i < 60; ++i) {  // teaches the kernel's length
    launch(gpu.us, 3, stream);
    OK(cuCtxSynchronize);
  }
  for (unsigned round = 1; round <= static_cast<unsigned>(rounds); ++round) {
    OK(cuStreamWaitValue32_v2, stream, flag, round, 0);  // value is at least `round`
    launch(gpu.us, 3, stream);
    for (int i = 1; i < chain; ++i) ok("cuLaunchKernelEx", launch_dependent(gpu.us, 3, stream));
    OK(cuStreamWriteValue32_v2, other, flag, round, 0);
    OK(cuCtxSynchronize);
  }
  std::printf("end\n");
  return 0;
}

int lives(int count) {
  const Gpu gpu;
  const CUstream stream = new_stream();
  for (int i = 0; i < count; ++i) {
    const CUgraphExec exec = gpu.exec(1 + i % 7, 20 + 10 * (i % 5), 1 + i % 3);
    for (int k = 0; k < 3; ++k) ok("cuGraphLaunch", gpu.g.cuGraphLaunch(exec, stream));
    if (i + 1 == count) break;
    ok("cuGraphExecDestroy", gpu.g.cuGraphExecDestroy(exec));
  }
  OK(cuCtxDestroy_v2, gpu.context);
  say_launched();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  ::alarm(kDeadlineSeconds);
  const std::string what = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return argc > i ? std::atoi(argv[i]) : 0; };
  if (what == "dump") return dump(number(2), argc > 3);
  if (what == "broken") return broken();
  if (what == "busy") return busy(number(2), number(3), number(4), number(5));
  if (what == "kinds") return kinds(number(2), number(3));
  if (what == "host") return host(number(2));
  if (what == "dependent") return dependent(number(2), number(3));
  if (what == "lives") return lives(number(2));
  return 2;
}
