// The simulated driver inside one process: its handles, its node, and the entry check that every function shares.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "guest/abi/cuda.hpp"
#include "sim/faults.hpp"
#include "sim/node.hpp"

namespace headgate::sim::driver {

using namespace headgate::abi;

inline constexpr std::uint64_t kPage = 4096;  // of the host

// An object to which a handle of the program points. It is never freed, so its word shows if the handle is stale: then
// a call returns `kStale`.
template <std::uint32_t word_while_valid, CUresult error = CUDA_ERROR_INVALID_HANDLE>
struct Handled {
  static constexpr std::uint32_t kWord = word_while_valid;
  static constexpr CUresult kStale = error;
  std::atomic<std::uint32_t> word{0};

  void publish() { word.store(kWord, std::memory_order_release); }
  void retire() { word.store(0, std::memory_order_release); }
  [[nodiscard]] bool valid() const { return word.load(std::memory_order_acquire) == kWord; }
};

struct Stream;
struct GreenContext;

struct Context : Handled<0x68637478, CUDA_ERROR_INVALID_CONTEXT> {
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

// cuda.h: CU_LIMIT_STACK_SIZE and PRINTF_FIFO_SIZE, in bytes, then MALLOC_HEAP_SIZE, which the profile tells. The
// defaults are included in context_bytes.
inline constexpr std::uint64_t kDefaultLimits[8] = {1024, 1 << 20, 0, 2, 2048, 128, 0, 0};

struct Stream : Handled<0x68737472> {
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

struct Event : Handled<0x68657674> {
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
  std::vector<CUresult> ended_by;  // by ordinal: a fatal error, after which no new context is made (cuda.h)
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

// The same for a function that must not be given these arguments as NULL. INVALID_VALUE.
inline CUresult enter(const char* name, std::initializer_list<const void*> needed) {
  const CUresult entered = enter(name);
  if (entered != CUDA_SUCCESS) return entered;
  return std::ranges::count(needed, nullptr) != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// Returns the calling thread's context. INVALID_CONTEXT, CONTEXT_IS_DESTROYED, DEVICE_UNAVAILABLE.
CUresult current_context(Context** out);
// The same for a handle. INVALID_CONTEXT if it is not valid.
CUresult context_of(CUcontext handle, Context** out);
// The same, but null means the current context.
inline CUresult context_or_current(CUcontext handle, Context** out) {
  return handle ? context_of(handle, out) : current_context(out);
}
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
CUresult submit_locked(Stream* stream, Command& command, std::uint64_t* number = nullptr);
CUresult submit(Stream* stream, Command& command, std::uint64_t* number = nullptr);
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

// Stores a call's result, an object as its handle. Returns SUCCESS.
template <typename T, typename Value>
CUresult give(T* out, Value&& value) {
  if constexpr (std::is_pointer_v<T> && std::is_pointer_v<std::decay_t<Value>>) *out = reinterpret_cast<T>(value);
  else *out = static_cast<T>(std::forward<Value>(value));
  return CUDA_SUCCESS;
}

// Returns the only T of its kind. Never destroyed: the program's threads may still be inside a call during exit.
template <typename T>
T& forever() {
  static T& only = *new T;
  return only;
}

// Returns the object of a handle; null if it is stale or invalid.
template <typename T>
T* object(const void* handle) {
  if (reinterpret_cast<std::uintptr_t>(handle) < 4096) return nullptr;
  T* found = static_cast<T*>(const_cast<void*>(handle));
  return found->valid() ? found : nullptr;
}
template <typename T>
CUresult resolve(const void* handle, T** out) {
  *out = object<T>(handle);
  return *out ? CUDA_SUCCESS : T::kStale;
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
    object->retire();
    const std::lock_guard guard(lock_);
    free_.push_back(object);
  }

 private:
  std::mutex lock_;
  std::vector<T*> free_, made_;  // made_ lists all, so an object that the program leaks stays reachable
};
template <typename T>
Pool<T>& recycled() {
  return forever<Pool<T>>();
}

// Objects that have not been destroyed, so that they can end with their context.
template <typename T>
struct Alive {
  std::mutex lock;
  std::vector<T*> all;  // under lock

  void add(T* object) {
    const std::lock_guard guard(lock);
    all.push_back(object);
  }
  // Returns false if it was removed before. Searches from the end, because programs often destroy the youngest.
  bool remove(T* object) {
    const std::lock_guard guard(lock);
    const auto found = std::find(all.rbegin(), all.rend(), object);
    if (found == all.rend()) return false;
    *found = all.back();
    all.pop_back();
    return true;
  }
  std::vector<T*> remove_of(const Context* context) {
    const std::lock_guard guard(lock);
    std::vector<T*> gone;
    std::erase_if(all, [&](T* one) { return one->context == context && (gone.push_back(one), true); });
    return gone;
  }
};
template <typename T>
Alive<T>& alive() {
  return forever<Alive<T>>();
}

void forget_events(Context* context);
// Creates a handle for an event of the node.
CUevent list_event(Context* context, std::uint32_t index, unsigned flags, bool imported);

}  // namespace headgate::sim::driver

#define SIM_API extern "C" __attribute__((visibility("default")))
// `...`: arguments that must not be NULL.
#define SIM_ENTER(name, ...) SIM_TRY(headgate::sim::driver::enter(#name __VA_OPT__(, {__VA_ARGS__})))
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
    SIM_ENTER(name, out);                                          \
    SIM_GET(type, object, call);                                   \
    return give(out, value);                                       \
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
