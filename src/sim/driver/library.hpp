// The simulated driver inside one process: its handles, its node, and the way in that every function shares.
#pragma once

#include <atomic>
#include <cstdint>
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

struct Stream;

struct Context {
  std::atomic<std::uint32_t> word{0};
  std::uint32_t index = kNone;  // in the node
  std::uint32_t account = kNone;
  int device = 0;                 // CUDA ordinal
  std::uint32_t node_device = 0;  // the node's number of it
  std::uint32_t flags = 0;
  bool primary = false;
  std::uint64_t id = 0;
  std::mutex lock;          // held by a launch even while it waits for room in a queue, as in a real driver
  std::uint64_t order = 0;  // under lock
  Stream* legacy = nullptr;
  std::vector<Stream*> streams;  // under lock; the legacy one included
  std::uint64_t limits[8] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0, 0};
  int cache_config = 0, shared_config = 0;
};

struct Stream {
  std::atomic<std::uint32_t> word{0};
  Context* context = nullptr;
  std::uint32_t index = kNone;
  StreamKind kind = StreamKind::unused;
  unsigned flags = 0;
  int priority = 0;
  std::uint64_t id = 0;
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
  std::atomic<std::uint64_t> next_id{1};

  [[nodiscard]] State& state() const { return node->state(); }
  [[nodiscard]] const Profile& profile() const { return node->profile(); }
};

enum class Life : std::uint32_t { fresh, ready, forked, ended };
extern std::atomic<Life> life;
Library& library();

// While streams capture: STREAM_CAPTURE_UNSUPPORTED for a call that may not be made meanwhile; see capture.hpp.
extern std::atomic<unsigned> captures_open;
CUresult forbidden_by_capture(const char* name);

// What every function answers before it looks at its arguments: a fault's status, NOT_INITIALIZED, DEINITIALIZED; else SUCCESS.
inline CUresult enter(const char* name) {
  const Life now = life.load(std::memory_order_acquire);
  if (now != Life::ready) [[unlikely]]
    return now == Life::ended ? CUDA_ERROR_DEINITIALIZED : CUDA_ERROR_NOT_INITIALIZED;
  const auto injected = static_cast<CUresult>(fault(name));
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
CUresult make_stream(Context* context, StreamKind kind, unsigned flags, int priority, Stream** out);

// Appends a command (its order and submit time are set here), waiting for room if it must. `number` is its place.
// The caller holds the context's lock.
CUresult submit_locked(Stream* stream, Command& command, std::uint64_t* number);
CUresult submit(Stream* stream, Command& command, std::uint64_t* number);
// The same of a part of something that was let in as a whole: no capture is looked at, no host time spent, and the submit
// time is the whole's where it is set.
CUresult enqueue_locked(Stream* stream, Command& command, std::uint64_t* number);
// Waits, asleep, until so many commands of the stream are complete; then moves the data that is due.
CUresult wait_for(Stream* stream, std::uint64_t number);
// Legacy: all blocking streams of its context too.
CUresult wait_stream(Stream* stream);
CUresult wait_context(Context* context);
[[nodiscard]] bool stream_idle(Stream* stream);
[[nodiscard]] std::uint64_t pushed_to(const Stream* stream);
[[nodiscard]] bool lost(const Context* context);

inline Counters& counters(const Context* context) { return library().state().counters[context->account]; }
inline void count(std::atomic<std::uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

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
