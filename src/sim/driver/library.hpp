// The simulated driver inside one process: its handles, its node, and the entry check that every function shares.
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

// A handle is the address of an object that is never freed, so its word shows if the handle is stale.
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
  std::uint32_t node_device = 0;  // its number in the node
  std::uint32_t flags = 0;
  bool primary = false;
  Context* root = this;  // of a green context: the primary context, which holds everything except its SMs
  GreenContext* green = nullptr;
  std::uint64_t id = 0;
  std::mutex lock;          // held by a launch even while it waits for queue space, as in a real driver
  std::uint64_t order = 0;  // under lock
  Stream* legacy = nullptr;
  std::vector<Stream*> streams;   // under lock; includes the legacy stream
  std::uint64_t limits[8] = {};   // by CUlimit, initially kDefaultLimits
  std::uint64_t local_bytes = 0;  // room for local memory per thread; under the growth lock, like the next two
  std::uint64_t grown_bytes = 0;  // beyond the profile's context_bytes: local memory, heap, printf
  std::uint64_t code_bytes = 0;   // of loaded kernels
  int cache_config = 0, shared_config = 0;
};

// cuda.h: CU_LIMIT_STACK_SIZE, PRINTF_FIFO_SIZE and MALLOC_HEAP_SIZE, in bytes. The defaults are included in
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
  GreenContext* green = nullptr;       // its kernels use this context's SMs
  std::uint64_t green_id = 0;          // id of that context, which the stream may outlive
  std::atomic<bool> capturing{false};  // its work becomes graph nodes: see capture.hpp
};

struct Event {
  std::atomic<std::uint32_t> word{0};
  Context* context = nullptr;
  std::uint32_t index = kNone;
  std::uint32_t generation = 0;  // of its cell in the node
  unsigned flags = 0;
  bool imported = false;                      // belongs to another process
  std::atomic<std::uint64_t> captured_in{0};  // the capture that last recorded it, or 0
};

struct Library {
  std::unique_ptr<Node> node;
  std::vector<std::uint32_t> visible;  // CUDA ordinal -> the node's device number
  std::mutex contexts_lock;            // guards the lists below
  std::vector<Context*> contexts;      // alive
  std::vector<Context*> primary;       // by ordinal; null while inactive
  std::vector<unsigned> primary_uses, primary_flags;
  std::vector<CUresult>
      ended_by;  // by ordinal: a fatal error; cuda.h says the process must end, so no new context is made
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
// Returns the driver's CUDA version, also before cuInit.
int cuda_version();

// While streams capture, returns STREAM_CAPTURE_UNSUPPORTED for a call that is not allowed then; see capture.hpp.
extern std::atomic<unsigned> captures_open;
CUresult forbidden_by_capture(const char* name);

// Applies a fault rule that matches this call: returns its status and, if it says so, ends the thread's context.
CUresult act_on_fault(const char* name);
inline CUresult injected_fault(const char* name) { return faults_detail::quiet() ? CUDA_SUCCESS : act_on_fault(name); }

// The node's word that tells if this process's calls may proceed: 0 unless it is locked for a checkpoint.
extern std::atomic<const std::atomic<std::uint32_t>*> own_checkpoint;
// Blocks while this process is locked; checkpoint calls never block.
void wait_while_held(const char* name);

// The check that each function makes before it reads its arguments: a fault's status, NOT_INITIALIZED, DEINITIALIZED or
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

// Returns the calling thread's context. INVALID_CONTEXT, CONTEXT_IS_DESTROYED, DEVICE_UNAVAILABLE.
CUresult current_context(Context** out);
// The same for a handle. INVALID_CONTEXT if it is not valid.
CUresult context_of(CUcontext handle, Context** out);
// Resolves a stream handle, 0 or a pseudo handle in the current context. per_thread: which stream 0 means.
CUresult stream_of(CUstream handle, bool per_thread, Stream** out);
CUresult event_of(CUevent handle, Event** out);

// Creates a context on a device (CUDA ordinal) and lists it. OUT_OF_MEMORY, INVALID_DEVICE.
CUresult make_context(int device, unsigned flags, bool primary, Context** out);
void end_context(Context* context);
CUresult make_stream(Context* context, StreamKind kind, unsigned flags, int priority, Stream** out,
                     GreenContext* green = nullptr);
// Returns while the queue still drains, but waits for data that is still to be copied.
CUresult end_stream(Stream* stream);

// Appends a command and sets its order and submit time; waits for queue space if necessary. `number` is its position.
// The caller holds the context's lock.
CUresult submit_locked(Stream* stream, Command& command, std::uint64_t* number);
CUresult submit(Stream* stream, Command& command, std::uint64_t* number);
// The same for a part of work that was admitted as a whole: no capture check, no host time. Keeps the submit time if it
// is set.
CUresult enqueue_locked(Stream* stream, Command& command, std::uint64_t* number, bool joins = false);
// Sleeps until this many commands of the stream have completed, then copies the data that is due.
CUresult wait_for(Stream* stream, std::uint64_t number);
// For the legacy stream, waits for all blocking streams of its context too.
CUresult wait_stream(Stream* stream);
CUresult wait_context(Context* context);
[[nodiscard]] bool stream_idle(Stream* stream);
[[nodiscard]] std::uint64_t pushed_to(const Stream* stream);
// The status that every use of the context returns: DEVICE_UNAVAILABLE if the device is lost, the error of the kernel
// that ended it, else SUCCESS.
[[nodiscard]] CUresult health(const Context* context);
// Ends the context as a kernel would, with an error from kernel_faults.hpp.
void fail_context(Context* context, CUresult error);

inline Counters& counters(const Context* context) { return library().state().counters[context->account]; }
inline void count(std::atomic<std::uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

// Writes to a caller's void*, which may be unaligned.
template <typename T>
CUresult put_value(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
  return CUDA_SUCCESS;
}

// Returns the only T of its kind. Never destroyed: the program's threads may still be inside a call during exit.
template <typename T>
T& forever() {
  static T& only = *new T;
  return only;
}

template <typename T>
T* object(const void* handle, std::uint32_t word) {
  if (reinterpret_cast<std::uintptr_t>(handle) < 4096) return nullptr;
  T* found = static_cast<T*>(const_cast<void*>(handle));
  return found->word.load(std::memory_order_acquire) == word ? found : nullptr;
}

// Objects that are reused, oldest first, and never freed.
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
  std::vector<T*> free_, made_;  // made_ lists all, so an object that the program leaks stays reachable
};

Pool<Context>& context_objects();
Pool<Stream>& stream_objects();
Pool<Event>& event_objects();
void forget_events(Context* context);
// Creates a handle for an event of the node.
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
// Declares `type* name`, which `call` sets through its address; returns the call's status if it fails.
#define SIM_GET(type, name, call) \
  type* name = nullptr;           \
  SIM_TRY(call)
// Defines a function of the driver that stores `value` of a handle's object, which `call` finds, in *out.
#define SIM_TELL(name, parameters, out, type, object, call, value) \
  SIM_API CUresult name parameters {                               \
    SIM_ENTER(name);                                               \
    if (!out) return CUDA_ERROR_INVALID_VALUE;                     \
    SIM_GET(type, object, call);                                   \
    *out = value;                                                  \
    return CUDA_SUCCESS;                                           \
  }
// Defines a function of the driver that returns one expression. `parameters` are in parentheses. In the expression,
// per_thread tells which stream 0 means.
#define SIM_CALL_AS(name, own_default, parameters, ...)       \
  SIM_API CUresult name parameters {                          \
    SIM_ENTER(name);                                          \
    [[maybe_unused]] constexpr bool per_thread = own_default; \
    return __VA_ARGS__;                                       \
  }
#define SIM_CALL(name, parameters, ...) SIM_CALL_AS(name, false, parameters, __VA_ARGS__)
// Define both default-stream variants of a function.
#define SIM_CALL_PTSZ(name, parameters, ...)        \
  SIM_CALL_AS(name, false, parameters, __VA_ARGS__) \
  SIM_CALL_AS(name##_ptsz, true, parameters, __VA_ARGS__)
#define SIM_CALL_PTDS(name, parameters, ...)        \
  SIM_CALL_AS(name, false, parameters, __VA_ARGS__) \
  SIM_CALL_AS(name##_ptds, true, parameters, __VA_ARGS__)
