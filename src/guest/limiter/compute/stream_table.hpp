// What one process meters: its contexts, streams and settler, and a launch's path past the gate.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "guest/limiter/compute/meter.hpp"
#include "guest/limiter/route/driver.hpp"
#include "guest/limiter/session/session.hpp"

namespace headgate::limiter {

inline constexpr std::uint32_t kMaxContexts = 128;
inline constexpr std::uint32_t kMaxStreams = 512;

// Makes a context current for the calling thread, and restores the previous one. Null: changes nothing.
class CurrentContext {
 public:
  explicit CurrentContext(abi::CUcontext wanted);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  abi::CUcontext before_ = nullptr;
  bool changed_ = false;
};

// The real driver and clock behind Meter.
struct DriverPort {
  std::int64_t now_ns();
  abi::CUresult create(abi::CUevent* event);
  void destroy(abi::CUevent event);
  abi::CUresult record(abi::CUevent event, abi::CUstream stream);
  abi::CUresult query(abi::CUevent event);
  abi::CUresult elapsed(float* ms, abi::CUevent start, abi::CUevent end);
  abi::CUresult idle(abi::CUstream stream, ContextMeter& context);
  void enter(ContextMeter& context);
  void failed(ContextMeter& context, abi::CUresult result, const char* call);
  std::uint32_t ceiling_ppm(const ContextMeter& context);
  std::uint32_t burst_ppm(const ContextMeter& context);
};

// A thread's lock-free access to an open bracket: it counts the time it uses here, up to what it was given. Closing the
// bracket takes the rest back. At most one launch that is passing at that moment is then in no bracket.
struct alignas(64) Lane {
  std::atomic<const void*> owner{nullptr};  // the thread's ThreadLane
  std::atomic<std::int64_t> used_ns{0};     // written by the owner only, like launches
  std::atomic<std::int64_t> limit_ns{0};
  std::atomic<std::uint32_t> launches{0};
  // Under the stream's lock: how much of it was added to the stream's bracket.
  std::int64_t told_ns = 0;
  std::uint32_t told_launches = 0;
};

struct ThreadLane {
  abi::CUstream handle;
  std::uint64_t function;
  std::int64_t est_ns;
  Lane* lane;
  const StreamMeter* stream;
  const std::atomic<std::uint32_t>* gate;  // of the stream's device
  std::uint32_t gate_epoch, epoch;
};

struct ComputeState {
  std::atomic<bool> active{false};            // this is a member with a context; nothing is checked before
  std::atomic<bool> limited{false};           // a ceiling below the whole GPU, turns on it, or a pause
  std::atomic<std::int64_t> paused_ns{0};     // when a pause was seen; 0: not paused
  std::atomic<std::uint32_t> epoch{0};        // moves when a thread must not use its cached stream
  std::atomic<std::uint32_t> lane_epoch{0};   // moves when no lane may be used without checking everything else
  std::atomic<std::uint32_t> legacy_open{0};  // 1: a bracket may be open on a legacy stream
  bool legacy_open_elsewhere(const StreamMeter& stream) const {
    return legacy_open.load(std::memory_order_relaxed) != 0 && !stream.legacy;
  }
  std::uint32_t device_count = 0;
  std::array<std::atomic<std::uint32_t>, ledger::kMaxDevices> seen_gate_epoch{};
  Estimates estimates;
  std::array<Pace, ledger::kMaxDevices> paces;
  std::array<ContextMeter, kMaxContexts> contexts;
  std::array<StreamMeter, kMaxStreams> streams;
  std::array<Lane, kMaxStreams> lanes;  // of the stream with the same index
  std::atomic<bool> too_many{false};    // contexts; logged once
  // Entries used so far. A look beyond would take memory for pages that hold nothing.
  std::atomic<std::uint32_t> context_limit{0}, stream_limit{0};
  std::span<ContextMeter> used_contexts() { return std::span(contexts).first(context_limit.load()); }
  std::span<StreamMeter> used_streams() { return std::span(streams).first(stream_limit.load()); }
  std::atomic<std::uint32_t> contexts_seen{0};  // existing; with one, a default stream's handle is unambiguous
  ShortLock table_lock;                         // protects adding and removing contexts and streams
  ShortLock settler_lock;                       // held while the settler queries the driver
  std::atomic<std::uint32_t> work{0};           // futex: moves when there is something to settle
  std::atomic<bool> settler_idle{false};
  std::atomic<bool> unsettled{false};     // the settler cannot be started: nothing can be measured
  std::atomic<std::uint32_t> settler{0};  // 0 none, 1 starting or running, 2 to stop, 3 stopped
};

extern ComputeState metered;
extern __thread ThreadLane thread_lane __attribute__((tls_model("initial-exec")));
extern DriverPort port;
extern Meter<DriverPort> meter;

inline bool is_pseudo(abi::CUstream handle) { return reinterpret_cast<std::uintptr_t>(handle) <= 2; }
// Returns whether the handle is unambiguous: a pseudo handle means the current context's stream.
inline bool says_which_stream(abi::CUstream handle) {
  return !is_pseudo(handle) || metered.contexts_seen.load(std::memory_order_relaxed) == 1;
}

// Returns true if the launch is paid for, counted, and in an open bracket. Some loads and compares, two plain stores.
inline bool lane_passes(abi::CUstream handle, std::uint64_t function) {
  const ThreadLane& mine = thread_lane;
  if (mine.handle != handle || mine.function != function) return false;
  if (mine.epoch != metered.lane_epoch.load(std::memory_order_relaxed)) return false;
  if (mine.gate_epoch != mine.gate->load(std::memory_order_relaxed)) return false;
  Lane& lane = *mine.lane;
  const std::int64_t used_ns = lane.used_ns.load(std::memory_order_relaxed) + mine.est_ns;
  if (lane.owner.load(std::memory_order_relaxed) != &mine || used_ns > lane.limit_ns.load(std::memory_order_relaxed))
    return false;
  if (!mine.stream->open.load(std::memory_order_relaxed)) return false;
  lane.used_ns.store(used_ns, std::memory_order_relaxed);
  lane.launches.store(lane.launches.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return true;
}
// Under the stream's lock. Gives the calling thread what the bracket may still use of the process's prepaid time.
void give_lane(StreamMeter& stream, abi::CUstream handle, std::uint64_t function, std::uint32_t epoch);
// Under the stream's lock. Adds what went through the lane to the bracket; with `take`, returns the lane's rest to the
// prepaid time.
void tell_lane(StreamMeter& stream, bool take);
// The calling thread launches on `next`: returns what its lane on another stream holds to the prepaid time. Otherwise
// threads that alternate between streams would wait although they have credit.
void flush_fast_path(const StreamMeter& next);
// If no bracket is open, returns prepaid time that was charged for nothing.
void return_prepaid(ContextMeter& context);
void move_lane_epoch();
// Call before a thread waits: closes what it would leave open on other streams of the context.
void close_others(const StreamMeter& stream);

// Returns whether launches of this context can be measured (again). While measuring has failed for less than
// kUnmeteredNs, the calling thread waits here for the next attempt, without our locks; later the fail policy applies at
// once between attempts.
bool can_measure(ContextMeter& context);
// For the settler, under its lock: resumes contexts that are due for an attempt. Returns when to look again.
std::int64_t resume_failed(std::int64_t now_ns);

// Returns the text for what the share's fail policy does with launches that cannot be measured.
const char* unmeasured_fate();

// Returns whether this launch or call concerns the meter. A few loads; reads the policy again if it has changed.
bool concerned();
// Returns true if surely not: nothing has changed and nothing is limited. If false, call concerned().
inline bool unconcerned() {
  if (!metered.active.load(std::memory_order_acquire)) return true;
  if (metered.limited.load(std::memory_order_relaxed)) return false;
  for (std::uint32_t d = 0; d < metered.device_count; ++d)
    if (session.policy->devices[d].gate_epoch.load(std::memory_order_relaxed) !=
        metered.seen_gate_epoch[d].load(std::memory_order_relaxed))
      return false;
  return true;
}

// Call under the table's lock. Returns the context's entry, which it makes if needed; null: it cannot be metered.
// device: kNoDevice for a context that we did not see created.
ContextMeter* context_meter(abi::CUcontext handle, std::uint32_t device = kNoDevice);
// Finds the stream of a handle in the calling thread's context; null: not metered. known_stream() returns null before
// its first launch, too.
StreamMeter* find_stream(abi::CUstream handle);
StreamMeter* known_stream(abi::CUstream handle);
// Record the end of open brackets: on this stream, or on all of the current context.
void close_stream(abi::CUstream handle, bool dies);
void close_context();
// Closes the legacy stream's bracket before work on other streams: recorded later, its end would wait for that work.
void close_legacy();

void pause_thread();
void wake_settler();
// Sleeps while the word is `seen`, at most wait_ns.
void wait_at_gate(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::int64_t wait_ns);
void start_settler();

}  // namespace headgate::limiter
