// What one process meters: its contexts, streams, the settler, and the way of a launch past the gate.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "guest/limiter/compute/meter.hpp"
#include "guest/limiter/route/driver.hpp"
#include "guest/limiter/session/session.hpp"

namespace headgate::limiter {

inline constexpr std::uint32_t kMostContexts = 32;
inline constexpr std::uint32_t kMostStreams = 512;

// The real driver and clock behind Meter.
struct DriverPort {
  std::int64_t now_ns();
  abi::CUresult create(abi::CUevent* event);
  abi::CUresult record(abi::CUevent event, abi::CUstream stream);
  abi::CUresult query(abi::CUevent event);
  abi::CUresult elapsed(float* ms, abi::CUevent start, abi::CUevent end);
  abi::CUresult idle(abi::CUstream stream, ContextMeter& context);
  void enter(ContextMeter& context);
  void failed(ContextMeter& context, abi::CUresult result, const char* call);
  std::uint32_t ceiling_ppm(const ContextMeter& context);
};

struct Metered {
  std::atomic<bool> active{false};        // a member with a context; nothing is looked at before
  std::atomic<bool> limited{false};       // some ceiling of the share is below the whole GPU
  std::atomic<std::uint32_t> epoch{1};    // moves when a thread must not trust the stream it remembers
  std::atomic<std::uint32_t> captures{0}; // BeginCapture less EndCapture
  std::atomic<std::uint32_t> legacy_open{0};  // 1: a bracket may be open on a legacy stream
  bool legacy_open_elsewhere(const StreamMeter& stream) const {
    return legacy_open.load(std::memory_order_relaxed) != 0 && !stream.legacy;
  }
  std::uint32_t device_count = 0;
  std::array<std::atomic<std::uint32_t>, ledger::kMaxDevices> seen_gate_epoch{};
  Estimates estimates;
  std::array<Pace, ledger::kMaxDevices> paces;
  std::array<ContextMeter, kMostContexts> contexts;
  std::array<StreamMeter, kMostStreams> streams;
  std::atomic<std::uint32_t> stream_limit{0};
  std::atomic<std::uint32_t> contexts_seen{0};
  ShortLock table_lock;    // contexts and streams come and go
  ShortLock settler_lock;  // held while the settler asks the driver
  std::atomic<std::uint32_t> work{0};     // futex: moves when there is something to settle
  std::atomic<bool> settler_idle{false};
  std::atomic<std::uint32_t> settler{0};  // 0 none, 1 starting or running, 2 stopped
};

extern Metered metered;
extern DriverPort port;
extern Meter<DriverPort> meter;

// Whether this launch or call concerns the meter at all. A few loads; looks at the policy again when it has changed.
bool concerned();

// The stream behind a handle in the calling thread's context; null: not metered.
StreamMeter* find_stream(abi::CUstream handle);
// Records the ends of what is open: on this stream, or on all of the current context.
void close_stream(abi::CUstream handle, bool dies);
void close_context();
// A later record on the legacy stream would order other streams' work: its bracket ends before anything else is sent.
void close_legacy();

void pause_thread();
void wake_settler();
void wait_at_gate(std::uint32_t device, std::int64_t wait_ns);
void start_settler();

}  // namespace headgate::limiter
