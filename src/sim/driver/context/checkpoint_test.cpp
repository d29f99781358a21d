// The checkpoint calls between two processes.
#include "sim/driver/test_program.hpp"
#include "sim/profile.hpp"

namespace headgate::sim {
namespace {

constexpr std::uint64_t kBytes = 1200ull << 20;  // more than half of the device
constexpr CUprocessState kRunning{0}, kLocked{1}, kCheckpointed{2};

void is(CUresult result, unsigned wanted, const std::string& what) {
  must(static_cast<unsigned>(result) == wanted, message(what, " answered ", static_cast<unsigned>(result)));
}

class Checkpoints : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    ASSERT_TRUE(create_node(directory_, *find_profile("tiny")));
  }
  std::uint64_t launches(pid_t pid) {
    for (const ProcessTruth& process : truth().processes)
      if (process.pid == pid) return process.launches;
    return 0;
  }
  std::uint64_t bytes(pid_t pid) {
    for (const ProcessTruth& process : truth().processes)
      if (process.pid == pid) return process.bytes;
    return 0;
  }
};

TEST_F(Checkpoints, AProcessesMemoryLeavesTheCardAndReturnsUnchanged) {
  const pid_t target = start([] {
    Program p;
    CUdeviceptr memory = 0;
    OK(p.cu.cuMemAlloc_v2(&memory, kBytes));
    OK(p.cu.cuMemsetD32_v2(memory, 0x1234, 1000));
    while (true) {  // until it is killed
      p.run_us(100, nullptr);
      unsigned last = 0;
      OK(p.cu.cuMemcpyDtoH_v2(&last, memory + 999 * 4, 4));
      must(last == 0x1234, "what it holds is lost");
    }
  });
  while (bytes(target) != kBytes) ::usleep(1000);
  EXPECT_EQ(run([&] {
              Program p;
              const auto state = [&] {
                CUprocessState now{};
                OK(p.cu.cuCheckpointProcessGetState(target, &now));
                return now;
              };
              CUdeviceptr memory = 0;
              int thread = 0;
              must(state() == kRunning, "running");
              OK(p.cu.cuCheckpointProcessGetRestoreThreadId(target, &thread));
              is(p.cu.cuCheckpointProcessCheckpoint(target, nullptr), 401, "a checkpoint of one that runs");
              is(p.cu.cuCheckpointProcessUnlock(target, nullptr), 401, "an unlock of one that runs");
              is(p.cu.cuCheckpointProcessLock(1 << 29, nullptr), 1, "a pid without a process");
              is(p.cu.cuCheckpointProcessGetState(target, nullptr), 1, "nowhere");
              std::uint64_t none[8] = {0, 0, 3};
              is(p.cu.cuCheckpointProcessLock(target, reinterpret_cast<CUcheckpointLockArgs*>(none)), 1,
                 "a reserved word");
              is(p.cu.cuMemAlloc_v2(&memory, kBytes), 2, "both do not fit");
              OK(p.cu.cuCheckpointProcessLock(target, nullptr));
              must(state() == kLocked, "locked");
              is(p.cu.cuCheckpointProcessLock(target, nullptr), 401, "twice");
              OK(p.cu.cuCheckpointProcessCheckpoint(target, nullptr));
              must(state() == kCheckpointed && bytes(target) == 0, "its memory is off the card");
              const std::uint64_t before = launches(target);
              OK(p.cu.cuMemAlloc_v2(&memory, kBytes));
              is(p.cu.cuCheckpointProcessRestore(target, nullptr), 2, "a restore without room");
              p.run_us(30'000, nullptr);
              OK(p.cu.cuCtxSynchronize());
              must(launches(target) == before, "its calls wait");
              OK(p.cu.cuMemFree_v2(memory));
              OK(p.cu.cuCheckpointProcessRestore(target, nullptr));
              must(state() == kLocked && bytes(target) == kBytes, "it is back, and still held");
              is(p.cu.cuCheckpointProcessRestore(target, nullptr), 401, "twice");
              OK(p.cu.cuCheckpointProcessUnlock(target, nullptr));
              must(state() == kRunning, "running");
              while (launches(target) < before + 3) ::usleep(1000);
            }),
            0);
  ::kill(target, SIGKILL);
  EXPECT_EQ(finish(target), SIGKILL) << "it had ended by itself";
}

TEST_F(Checkpoints, AProcessThatDiesWhileAwayLeavesNothing) {
  EXPECT_EQ(run([] {
              Program p;
              CUdeviceptr memory = 0;
              OK(p.cu.cuMemAlloc_v2(&memory, kBytes));
              OK(p.cu.cuCheckpointProcessLock(::getpid(), nullptr));
              OK(p.cu.cuCheckpointProcessCheckpoint(::getpid(), nullptr));
              ::_exit(0);
            }),
            0);
  auto node = Node::open_existing(directory_);
  ASSERT_TRUE(node);
  (*node)->reap();
  EXPECT_EQ(truth().used_bytes, 0u);
}

TEST_F(Checkpoints, MemoryThatOthersMayHoldIsNotMoved) {
  EXPECT_EQ(run([] {
              Program p;
              CUdeviceptr memory = 0;
              CUipcMemHandle handle{};
              OK(p.cu.cuMemAlloc_v2(&memory, 4 << 20));
              OK(p.cu.cuIpcGetMemHandle(&handle, memory));
              OK(p.cu.cuCheckpointProcessLock(::getpid(), nullptr));
              is(p.cu.cuCheckpointProcessCheckpoint(::getpid(), nullptr), 801, "shared memory");
              OK(p.cu.cuCheckpointProcessUnlock(::getpid(), nullptr));
              OK(p.cu.cuMemFree_v2(memory));
            }),
            0);
}

}  // namespace
}  // namespace headgate::sim
