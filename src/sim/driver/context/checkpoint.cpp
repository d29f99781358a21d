// The checkpoint calls: lock a process, move its memory off the devices and back, unlock it. A call may name any
// process of the node.

#include <algorithm>
#include <functional>
#include <string_view>

#include "sim/driver/library.hpp"

namespace headgate::sim::driver {
namespace {

constexpr std::atomic<std::uint32_t> kNotHeld{0};
constexpr std::uint64_t kLookEveryNs = 1'000'000;

// cuda.h: CUcheckpointRestoreArgs up to the GPU pairs.
struct GpuPair {
  CUuuid from, to;
};
struct RestoreArgs {
  const GpuPair* pairs;
  std::uint32_t count;
};
static_assert(sizeof(GpuPair) == 32);

// Reserved bytes must be 0: of CUcheckpointLockArgs those after the timeout, of the others all.
bool blank(const void* arguments, std::size_t used_bytes = 0) {
  const auto* bytes = static_cast<const std::byte*>(arguments);
  return bytes == nullptr || std::all_of(bytes + used_bytes, bytes + 64, [](std::byte b) { return b == std::byte{0}; });
}

// Returns the process that has this pid in the caller's pid namespace; kNone if there is none.
std::uint32_t process_of(const State& state, int pid) {
  const Process& own = state.processes[library().node->process()];
  for (std::uint32_t p = 0; p < kMaxProcesses; ++p) {
    const Process& one = state.processes[p];
    if (one.used && one.pid == pid && one.pid_namespace == own.pid_namespace) return p;
  }
  return kNone;
}

CheckpointState state_of(const Process& process) {
  return static_cast<CheckpointState>(process.checkpoint.load(std::memory_order_acquire));
}

// Calls `act` with the engine and the process. ILLEGAL_STATE unless the process is in the state that the call needs.
template <typename Act>
CUresult in_state(int pid, CheckpointState needed, Act act) {
  Node::Advanced locked(*library().node);
  const std::uint32_t p = process_of(locked->state(), pid);
  if (p == kNone) return CUDA_ERROR_INVALID_VALUE;
  if (state_of(locked->state().processes[p]) != needed) return CUDA_ERROR_ILLEGAL_STATE;
  return act(locked.engine(), p);
}

CUresult lock(int pid, const void* arguments) {
  if (!blank(arguments, sizeof(std::uint32_t))) return CUDA_ERROR_INVALID_VALUE;
  return in_state(pid, CheckpointState::running, [](Engine& engine, std::uint32_t p) {
    engine.set_checkpoint(p, CheckpointState::locked);
    return CUDA_SUCCESS;
  });
}

// Waits until all work that was submitted before the lock has completed.
CUresult checkpoint(int pid, const void* arguments) {
  if (!blank(arguments)) return CUDA_ERROR_INVALID_VALUE;
  while (true) {
    const CUresult done = in_state(pid, CheckpointState::locked, [](Engine& engine, std::uint32_t p) {
      if (!engine.process_idle(p)) return CUDA_ERROR_NOT_READY;
      return engine.checkpoint_process(p) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    });
    if (done != CUDA_ERROR_NOT_READY) return done;
    library().node->sleep_until(clock_ns() + kLookEveryNs);
  }
}

CUresult restore(int pid, const RestoreArgs* arguments) {
  for (std::uint32_t i = 0; arguments != nullptr && i < arguments->count; ++i) {
    if (arguments->pairs == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const GpuPair& pair = arguments->pairs[i];
    if (!std::ranges::equal(pair.from.bytes, pair.to.bytes)) return CUDA_ERROR_NOT_SUPPORTED;  // onto another GPU
  }
  return in_state(pid, CheckpointState::checkpointed, [](Engine& engine, std::uint32_t p) {
    return engine.restore_process(p) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  });
}

CUresult unlock(int pid, const void* arguments) {
  if (!blank(arguments)) return CUDA_ERROR_INVALID_VALUE;
  return in_state(pid, CheckpointState::locked, [](Engine& engine, std::uint32_t p) {
    engine.set_checkpoint(p, CheckpointState::running);
    return CUDA_SUCCESS;
  });
}

template <typename Value, typename Read>
CUresult tell(int pid, Value* out, Read read) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  Node::Locked locked(*library().node);
  const std::uint32_t p = process_of(locked->state(), pid);
  if (p == kNone) return CUDA_ERROR_INVALID_VALUE;
  return give(out, std::invoke(read, locked->state().processes[p]));
}

}  // namespace

std::atomic<const std::atomic<std::uint32_t>*> own_checkpoint{&kNotHeld};

void wait_while_held(const char* name) {
  if (std::string_view(name).starts_with("cuCheckpoint")) return;
  const std::atomic<std::uint32_t>& word = *own_checkpoint.load();
  while (word.load(std::memory_order_acquire) != 0 && life.load() == Life::ready)
    library().node->sleep_until(clock_ns() + kLookEveryNs);
}

SIM_CALL(cuCheckpointProcessGetState, (int pid, CUprocessState* state), tell(pid, state, state_of))
// The simulator has no dedicated restore thread, so this returns the main thread's id.
SIM_CALL(cuCheckpointProcessGetRestoreThreadId, (int pid, int* tid), tell(pid, tid, &Process::pid))
SIM_CALL(cuCheckpointProcessLock, (int pid, CUcheckpointLockArgs* arguments), lock(pid, arguments))
SIM_CALL(cuCheckpointProcessCheckpoint, (int pid, CUcheckpointCheckpointArgs* arguments), checkpoint(pid, arguments))
SIM_CALL(cuCheckpointProcessRestore, (int pid, CUcheckpointRestoreArgs* arguments),
         restore(pid, reinterpret_cast<const RestoreArgs*>(arguments)))
SIM_CALL(cuCheckpointProcessUnlock, (int pid, CUcheckpointUnlockArgs* arguments), unlock(pid, arguments))

}  // namespace headgate::sim::driver
