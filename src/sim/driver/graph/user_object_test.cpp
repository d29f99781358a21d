// User objects on the simulated driver: the destructor runs once, after the last reference is released.
#include <chrono>

#include "sim/driver/graph/test_graph_program.hpp"

namespace headgate::sim {
namespace {

constexpr unsigned kNoSync = 1, kMove = 1;
constexpr std::uint64_t kFlag = 11;

struct Owning : Drawing {
  std::atomic<int> destroyed{0};
  void* object = nullptr;
  Owning() {
    const auto destroy = [](void* data) { ++*static_cast<std::atomic<int>*>(data); };
    OK(g.cuUserObjectCreate(&object, &destroyed, destroy, 1, kNoSync));
  }
  void wait_until_destroyed() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (destroyed == 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    must(destroyed == 1, "not destroyed once");
  }
};

TEST_F(Driver, AUserObjectIsDestroyedWithItsLastReference) {
  EXPECT_EQ(run([] {
              Owning p;
              OK(p.g.cuUserObjectRetain(p.object, 2));
              const CUgraph graph = p.graph();
              OK(p.g.cuGraphRetainUserObject(graph, p.object, 1, kMove));
              OK(p.g.cuGraphRetainUserObject(graph, p.object, 1, 0));
              OK(p.g.cuUserObjectRelease(p.object, 2));
              OK(p.g.cuGraphReleaseUserObject(graph, p.object, 1));
              CUgraph clone = nullptr;
              OK(p.g.cuGraphClone(&clone, graph));
              OK(p.g.cuGraphDestroy(graph));
              must(p.destroyed == 0, "destroyed while a clone has it");
              OK(p.g.cuGraphDestroy(clone));
              p.wait_until_destroyed();
            }),
            0);
}

TEST_F(Driver, AUserObjectOutlivesTheLaunchThatMayUseIt) {
  EXPECT_EQ(
      run([] {
        Owning p;
        const CUstream main = p.stream(), side = p.stream();
        const CUgraph graph = p.graph();
        p.kernel(graph, 100);
        OK(p.g.cuGraphRetainUserObject(graph, p.object, 1, kMove));
        const CUgraphExec exec = p.exec(graph);
        OK(p.g.cuGraphDestroy(graph));
        p.run_flag(p.spin, kFlag, main);
        OK(p.g.cuGraphLaunch(exec, main));
        OK(p.g.cuGraphExecDestroy(exec));
        // Host functions and destructors share a thread, so a destructor that was due has run before this function.
        std::atomic<bool> passed{false};
        OK(p.cu.cuLaunchHostFunc(side, [](void* data) { *static_cast<std::atomic<bool>*>(data) = true; }, &passed));
        OK(p.cu.cuStreamSynchronize(side));
        must(passed && p.destroyed == 0, "destroyed while the launch waits");
        p.run_flag(p.raise, kFlag, side);
        p.wait_until_destroyed();
        OK(p.cu.cuStreamSynchronize(main));
      }),
      0);
}

TEST_F(Driver, ReferencesThatAreNotHeldCannotBeReleased) {
  EXPECT_EQ(run([] {
              Owning p;
              const CUgraph graph = p.graph(), other = p.graph();
              void* made = nullptr;
              const CUhostFn nothing = [](void*) {};
              IS(p.g.cuUserObjectCreate(nullptr, nullptr, nothing, 1, kNoSync), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuUserObjectCreate(&made, nullptr, nullptr, 1, kNoSync), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuUserObjectCreate(&made, nullptr, nothing, 0, kNoSync), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuUserObjectCreate(&made, nullptr, nothing, 1u << 31, kNoSync), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuUserObjectCreate(&made, nullptr, nothing, 1, 0), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuUserObjectRetain(nullptr, 1), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuUserObjectRetain(p.object, 0), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuUserObjectRelease(p.object, 2), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphRetainUserObject(nullptr, p.object, 1, 0), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphRetainUserObject(graph, p.object, 1, 2), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphRetainUserObject(graph, p.object, 5, kMove), CUDA_ERROR_INVALID_VALUE);
              OK(p.g.cuGraphRetainUserObject(graph, p.object, 1, 0));
              IS(p.g.cuGraphReleaseUserObject(other, p.object, 1), CUDA_ERROR_INVALID_VALUE);
              IS(p.g.cuGraphReleaseUserObject(graph, p.object, 2), CUDA_ERROR_INVALID_VALUE);
              OK(p.g.cuGraphReleaseUserObject(graph, p.object, 1));
              OK(p.g.cuUserObjectRelease(p.object, 1));
              p.wait_until_destroyed();
              IS(p.g.cuUserObjectRelease(p.object, 1), CUDA_ERROR_INVALID_VALUE);
            }),
            0);
}

}  // namespace
}  // namespace headgate::sim
