// The simulated driver inside one process: its handles, its node, and the way in that every function shares.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "guest/abi/cuda.hpp"
#include "sim/faults.hpp"
#include "sim/node.hpp"

namespace headgate::sim::driver {

using namespace headgate::abi;

// Handles are addresses of objects that are never given back to the system: a stale one is seen by its word.
inline constexpr std::uint32_t kContextWord = 0x68637478, kStreamWord = 0x68737472, kEventWord = 0x68657674,
                               kModuleWord = 0x686d6f64, kFunctionWord = 0x6866756e;

inline constexpr std::uint64_t kPage = 4096;  // of the host

struct Stream;
struct GreenContext;

struct Context {
  std::atomic<std::uint32_t> word{0};
  std::uint32_t index = kNone;  // in the node
  std::uint32_t account = kNone;
  int device = 0;                 // CUDA ordinal
  std::uint32_t node_device = 0;  // the node's number of it
  std::uint32_t flags = 0;
  bool primary = false;
  Context* root = this;  // of a green context's: the primary context, which has everything but its own SMs
  GreenContext* green = nullptr;
  std::uint64_t id = 0;
  std::mutex lock;          // held by a launch even while it waits for room in a queue, as in a real driver
  std::uint64_t order = 0;  // under lock
  Stream* legacy = nullptr;
  std::vector<Stream*> streams;  // under lock; the legacy one included
  std::uint64_t limits[8] = {};  // by CUlimit: kDefaultLimits at first
  std::uint64_t local_bytes =
      0;  // per thread, that its local memory has room for; under its growth's lock, as the next two
  std::uint64_t grown_bytes = 0;  // taken beyond the profile's context_bytes: for local memory, heap, printf
  std::uint64_t code_bytes = 0;   // of loaded kernels
  int cache_config = 0, shared_config = 0;
};

// cuda.h: CU_LIMIT_STACK_SIZE, PRINTF_FIFO_SIZE and MALLOC_HEAP_SIZE, in bytes; what a new context has is in its
// context_bytes.
inline constexpr std::uint64_t kDefaultLimits[8] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0, 0};

struct Stream {
  std::atomic<std::uint32_t> word{0};
  Context* context = nullptr;
  std::uint32_t index = kNone;
  StreamKind kind = StreamKind::unused;
  unsigned flags = 0;
  int priority = 0;
  std::uint64_t id = 0;
  GreenContext* green = nullptr;       // whose SMs its kernels use
  std::uint64_t green_id = 0;          // and which one that was: a stream may outlive it
  std::atomic<bool> capturing{false};  // what it is sent becomes nodes of a graph: see capture.hpp
};

struct Event {
  std::atomic<std::uint32_t> word{0};
  Context* context = nullptr;
  std::uint32_t index = kNone;
  std::uint32_t generation = 0;  // of its cell in the node
  unsigned flags = 0;
  bool imported = false;                      // another process's
  std::atomic<std::uint64_t> captured_in{0};  // the capture in which it was last recorded, or 0
};

struct Library {
  std::unique_ptr<Node> node;
  std::vector<std::uint32_t> visible;  // CUDA ordinal -> the node's device number
  std::mutex contexts_lock;            // the lists below
  std::vector<Context*> contexts;      // alive
  std::vector<Context*> primary;       // by ordinal; null while not active
  std::vector<unsigned> primary_uses, primary_flags;
  std::vector<CUresult>
      ended_by;  // by ordinal: the error after which cuda.h has the process end; no context is made there any more
  std::atomic<std::uint64_t> next_id{1};

  [[nodiscard]] State& state() const { return node->state(); }
  [[nodiscard]] const Profile& profile() const { return node->profile(); }
};

enum class Life : std::uint32_t { fresh, ready, forked, ended };
extern std::atomic<Life> life;
Library& library();
inline bool known_device(int ordinal) {
  return ordinal >= 0 && static_cast<std::size_t>(ordinal) < library().visible.size();
}
// What the driver says it is, before cuInit too.
int cuda_version();

// While streams capture: STREAM_CAPTURE_UNSUPPORTED for a call that may not be made meanwhile; see capture.hpp.
extern std::atomic<unsigned> captures_open;
CUresult forbidden_by_capture(const char* name);

// A fault rule's answer to this call; where the rule says so, it ends the calling thread's context too.
CUresult act_on_fault(const char* name);
inline CUresult injected_fault(const char* name) { return faults_detail::quiet() ? CUDA_SUCCESS : act_on_fault(name); }

// The word in the node that says whether this process's calls may go on: 0 while it is not held for a checkpoint.
extern std::atomic<const std::atomic<std::uint32_t>*> own_checkpoint;
// Sleeps while they may not; the calls that lock and unlock always may.
void wait_while_held(const char* name);

// What every function answers before it looks at its arguments: a fault's status, NOT_INITIALIZED, DEINITIALIZED; else
// SUCCESS.
inline CUresult enter(const char* name) {
  const Life now = life.load(std::memory_order_acquire);
  if (now != Life::ready) [[unlikely]]
    return now == Life::ended ? CUDA_ERROR_DEINITIALIZED : CUDA_ERROR_NOT_INITIALIZED;
  if (own_checkpoint.load(std::memory_order_relaxed)->load(std::memory_order_relaxed) != 0) [[unlikely]]
    wait_while_held(name);
  const CUresult injected = injected_fault(name);
  if (captures_open.load(std::memory_order_relaxed) == 0 || injected != CUDA_SUCCESS) [[likely]]
    return injected;
  return forbidden_by_capture(name);
}

// The calling thread's context, or INVALID_CONTEXT / CONTEXT_IS_DESTROYED / DEVICE_UNAVAILABLE.
CUresult current_context(Context** out);
// The same for a handle; INVALID_CONTEXT where it is none.
CUresult context_of(CUcontext handle, Context** out);
// A stream handle, 0 and the two pseudo handles, in the current context. per_thread: what 0 means.
CUresult stream_of(CUstream handle, bool per_thread, Stream** out);
CUresult event_of(CUevent handle, Event** out);

// Makes a context on a device (CUDA ordinal) and lists it. OUT_OF_MEMORY, INVALID_DEVICE.
CUresult make_context(int device, unsigned flags, bool primary, Context** out);
void end_context(Context* context);
CUresult make_stream(Context* context, StreamKind kind, unsigned flags, int priority, Stream** out,
                     GreenContext* green = nullptr);
// The queue drains after the call; data that is still to be moved is waited for.
CUresult end_stream(Stream* stream);

// Appends a command (its order and submit time are set here), waiting for room if it must. `number` is its place.
// The caller holds the context's lock.
CUresult submit_locked(Stream* stream, Command& command, std::uint64_t* number);
CUresult submit(Stream* stream, Command& command, std::uint64_t* number);
// The same of a part of something that was let in as a whole: no capture is looked at, no host time spent, and the
// submit time is the whole's where it is set.
CUresult enqueue_locked(Stream* stream, Command& command, std::uint64_t* number, bool joins = false);
// Waits, asleep, until so many commands of the stream are complete; then moves the data that is due.
CUresult wait_for(Stream* stream, std::uint64_t number);
// Legacy: all blocking streams of its context too.
CUresult wait_stream(Stream* stream);
CUresult wait_context(Context* context);
[[nodiscard]] bool stream_idle(Stream* stream);
[[nodiscard]] std::uint64_t pushed_to(const Stream* stream);
// What every use of the context answers: DEVICE_UNAVAILABLE where the device is lost, the error with which a kernel
// ended the context, else SUCCESS.
[[nodiscard]] CUresult health(const Context* context);
// The context ends as if a kernel had ended it: with an error of kernel_faults.hpp.
void fail_context(Context* context, CUresult error);

inline Counters& counters(const Context* context) { return library().state().counters[context->account]; }
inline void count(std::atomic<std::uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

// What a caller's void* points at, which may be aligned for nothing.
template <typename T>
CUresult put_value(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
  return CUDA_SUCCESS;
}

template <typename T>
T* object(const void* handle, std::uint32_t word) {
  if (reinterpret_cast<std::uintptr_t>(handle) < 4096) return nullptr;
  T* found = static_cast<T*>(const_cast<void*>(handle));
  return found->word.load(std::memory_order_acquire) == word ? found : nullptr;
}

// Objects that are handed out again, oldest first, and never returned to the system.
template <typename T>
class Pool {
 public:
  T* take() {
    const std::lock_guard guard(lock_);
    if (free_.size() < 64) return made_.emplace_back(new T);
    T* oldest = free_.front();
    free_.erase(free_.begin());
    return oldest;
  }
  void give(T* object) {
    object->word.store(0, std::memory_order_release);
    const std::lock_guard guard(lock_);
    free_.push_back(object);
  }

 private:
  std::mutex lock_;
  std::vector<T*> free_, made_;  // all of them: what a program leaves alive is lost to it, not to us
};

Pool<Context>& context_objects();
Pool<Stream>& stream_objects();
Pool<Event>& event_objects();
void forget_events(Context* context);
// A handle for an event of the node.
CUevent list_event(Context* context, std::uint32_t index, unsigned flags, bool imported);

}  // namespace headgate::sim::driver

#define SIM_API extern "C" __attribute__((visibility("default")))
#define SIM_ENTER(name)                                                          \
  do {                                                                           \
    const headgate::abi::CUresult entered = headgate::sim::driver::enter(#name); \
    if (entered != headgate::abi::CUDA_SUCCESS) [[unlikely]]                     \
      return entered;                                                            \
  } while (false)
#define SIM_TRY(call)                                      \
  do {                                                     \
    const headgate::abi::CUresult tried = (call);          \
    if (tried != headgate::abi::CUDA_SUCCESS) [[unlikely]] \
      return tried;                                        \
  } while (false)
