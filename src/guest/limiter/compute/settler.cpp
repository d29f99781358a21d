// The real driver behind the meter, and the one thread that queries it.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include <cstring>

#include "guest/bare/clock.hpp"
#include "guest/bare/futex.hpp"
#include "guest/ledger/directory.hpp"
#include "guest/limiter/compute/copies.hpp"
#include "guest/limiter/compute/stream_table.hpp"
#include "guest/limiter/compute/turns.hpp"
#include "guest/limiter/session/gpu_pages.hpp"
#include "guest/limiter/session/registration.hpp"
#include "guest/limiter/session/thread_percentage.hpp"
#include "guest/limiter/stream/captures.hpp"

extern "C" int __cxa_atexit(void (*function)(void*), void* argument, void* dso_handle);
extern "C" void* __dso_handle;

namespace headgate::limiter {

std::int64_t DriverPort::now_ns() { return bare::host_ns(); }

abi::CUresult DriverPort::create(abi::CUevent* event) {
  return driver.cuEventCreate != nullptr ? driver.cuEventCreate(event, 0) : abi::CUDA_ERROR_NOT_FOUND;
}
void DriverPort::destroy(abi::CUevent event) {
  if (driver.cuEventDestroy_v2 != nullptr) driver.cuEventDestroy_v2(event);
  else if (driver.cuEventDestroy != nullptr) driver.cuEventDestroy(event);
}
abi::CUresult DriverPort::record(abi::CUevent event, abi::CUstream stream) {
  return driver.cuEventRecord != nullptr ? driver.cuEventRecord(event, stream) : abi::CUDA_ERROR_NOT_FOUND;
}
abi::CUresult DriverPort::query(abi::CUevent event) {
  return driver.cuEventQuery != nullptr ? driver.cuEventQuery(event) : abi::CUDA_ERROR_NOT_FOUND;
}
abi::CUresult DriverPort::elapsed(float* ms, abi::CUevent start, abi::CUevent end) {
  return driver.cuEventElapsedTime != nullptr ? driver.cuEventElapsedTime(ms, start, end) : abi::CUDA_ERROR_NOT_FOUND;
}

// In RELAXED mode a query of another stream breaks no capture; but during a capture nothing is queried.
abi::CUresult DriverPort::idle(abi::CUstream stream, ContextMeter&) {
  if (open_captures.load() != 0 || driver.cuStreamQuery == nullptr) return abi::CUDA_ERROR_NOT_READY;
  return driver.cuStreamQuery(stream);
}

namespace {

// If the GPU's page is unavailable, the share is still limited, and pays for its neighbours' slices.
ledger::Seat seat_on(std::uint32_t device) {
  const std::uint64_t owner = ledger::random_word() | 1, share = session.policy->generation;
  // A tenant of the daemon must not write what all shares read; the daemon hands out both pages.
  if (const GpuPages handed = gpu_pages_of(device); handed.own != nullptr)
    return {.page = handed.own, .board = handed.board, .owner = owner, .share = share};
  ledger::GpuPage* const page = users_gpu_page(device);
  if (page == nullptr) return {};
  return {.page = page, .board = nullptr, .owner = owner, .share = share};
}

// After its doorbell hung up, the daemon no longer reads the marks on the pages that came with it: it has ended, or
// reopened the share's socket and continues with the same board.
void ask_after_board(const ContextMeter& context) {
  constexpr std::int64_t kAskEachNs = 1'000'000'000;
  static std::atomic<std::int64_t> asked_ns{0};
  if (context.seat.board == nullptr) return;
  const std::int64_t now_ns = bare::host_ns();
  if (now_ns - asked_ns.load(std::memory_order_relaxed) < kAskEachNs) return;
  asked_ns.store(now_ns, std::memory_order_relaxed);
  if (daemon_hung_up()) renew_doorbell();
}

}  // namespace

void DriverPort::enter(ContextMeter& context) {
  context.arbitrated = arbitrated(context.device);
  // Here, not at the context's creation: the program should not wait for opening a file.
  ask_after_board(context);
  if (const std::uint32_t handed = gpu_pages_epoch(); context.seat_epoch != handed) {
    ledger::leave_seat(context.seat);
    context.seat_epoch = handed;
    context.seat = seat_on(context.device);
  }
  // For the calling thread: still current unless contexts were destroyed since.
  static __thread abi::CUcontext entered __attribute__((tls_model("initial-exec")));
  static __thread std::uint32_t entered_epoch __attribute__((tls_model("initial-exec")));
  const std::uint32_t epoch = metered.epoch.load();
  if (entered == context.handle && entered_epoch == epoch) return;
  if (driver.cuCtxSetCurrent == nullptr || driver.cuCtxSetCurrent(context.handle) != abi::CUDA_SUCCESS) return;
  entered = context.handle;
  entered_epoch = epoch;
}

void DriverPort::failed(ContextMeter& context, abi::CUresult result, const char* call) {
  for (std::uint32_t i = 0; i < ledger::kMeterCallCount; ++i) {
    if (std::strcmp(ledger::kMeterCalls[i], call) == 0)
      context.account->meter_failures[i].fetch_add(1, std::memory_order_relaxed);
  }
  log_line(LogLevel::error,
           "%s answered %u: GPU time of this context cannot be measured (device %u of the share); its launches %s",
           call, static_cast<unsigned>(result), context.device,
           gives_up_context(result) ? "fail: a kernel's fault has ended the context" : unmeasured_fate());
}

std::uint32_t DriverPort::ceiling_ppm(const ContextMeter& context) {
  const std::uint32_t ppm = session.policy->devices[context.device].compute_ceiling_ppm.load(std::memory_order_relaxed);
  const std::uint32_t left =
      ceiling_beside_mps(context.device, ppm == 0 || ppm > ledger::kWholeGpu ? ledger::kWholeGpu : ppm);
  return left == kNoTimeLimit ? left : ceiling_in_turns(context.device, left);
}

std::uint32_t DriverPort::burst_ppm(const ContextMeter& context) {
  if (arbitrated(context.device)) return 0;  // time above the guarantee is given out by the arbiter
  const std::uint32_t ppm = session.policy->devices[context.device].compute_burst_ppm.load(std::memory_order_relaxed);
  return ppm > ledger::kWholeGpu ? ledger::kWholeGpu : ppm;
}

namespace {

constexpr std::int64_t kLingerNs = 10'000'000;
constexpr std::int64_t kLingerLookNs = 250'000;
constexpr std::int64_t kForeverNs = 3'600'000'000'000;

void sleep_ns(std::int64_t ns) {
  const timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
  ::nanosleep(&time, nullptr);
}

// Called before the streams are examined, so that brackets include the time used in lanes. Empties lanes without a
// bracket.
void tell_lanes() {
  for (std::uint32_t i = 0; i < metered.stream_limit.load(); ++i) {
    StreamMeter& stream = metered.streams[i];
    if (metered.lanes[i].owner.load(std::memory_order_relaxed) == nullptr || !stream.used.load() ||
        !stream.lock.try_lock())
      continue;
    const bool open = stream.open.load(std::memory_order_relaxed);
    tell_lane(stream, !open);
    if (!open) return_prepaid(*stream.context);
    stream.lock.unlock();
  }
}

// Makes the account exact to the last kernel: measures what has ended, and charges the rest as far as it can have run.
void settle_for_good() {
  for (std::uint32_t i = 0; i < metered.stream_limit.load(); ++i) {
    StreamMeter& stream = metered.streams[i];
    if (!stream.used.load() || !stream.lock.try_lock()) continue;
    tell_lane(stream, true);
    port.enter(*stream.context);
    meter.settle_last(stream, port.now_ns());
    stream.lock.unlock();
  }
  for (ContextMeter& context : metered.used_contexts())
    if (context.handle != nullptr) return_prepaid(context);
}

void* settle_all(void*) {
  ::prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  if (driver.cuThreadExchangeStreamCaptureMode != nullptr) {
    abi::CUstreamCaptureMode mode = abi::CU_STREAM_CAPTURE_MODE_RELAXED;
    driver.cuThreadExchangeStreamCaptureMode(&mode);
  }
  std::int64_t last_work_ns = 0;
  while (metered.settler.load(std::memory_order_acquire) == 1) {
    const std::uint32_t work = metered.work.load();
    metered.settler_lock.lock();
    std::int64_t next = kNothingOpen;
    if (metered.settler.load() == 1) {
      tell_lanes();
      next = meter.settle({metered.streams.data(), metered.stream_limit.load()}, port.now_ns());
      next = std::min(next, settle_copies(port.now_ns()));
      next = std::min(next, resume_failed(port.now_ns()));
    }
    metered.settler_lock.unlock();
    report_work();
    if (next != kNothingOpen) {
      last_work_ns = port.now_ns();
      const std::int64_t left = next - last_work_ns;
      sleep_ns(left < 10'000 ? 10'000 : left > 500'000 ? 500'000 : left);
      continue;
    }
    // Waking the settler costs a launching thread a system call: sleep indefinitely only if nothing came for a while.
    if (port.now_ns() - last_work_ns < kLingerNs) {
      sleep_ns(kLingerLookNs);
      continue;
    }
    metered.settler_idle.store(true);
    if (metered.work.load() == work) bare::futex_wait(&metered.work, work, kForeverNs);
    metered.settler_idle.store(false);
  }
  if (metered.settler.load() == 2) {
    settle_for_good();
    metered.settler.store(3);
  }
  return nullptr;
}

// Registered after the driver's own cuInit, so it runs before the driver shuts itself down.
void stop_settler(void*) {
  std::uint32_t running = 1;
  if (!metered.settler.compare_exchange_strong(running, 2)) return;
  metered.active.store(false);
  metered.work.fetch_add(1);
  bare::futex_wake_all(&metered.work);
  for (int tries = 0; tries < 5'000 && metered.settler.load() != 3; ++tries) pause_thread();
}

}  // namespace

void start_settler() {
  std::uint32_t none = 0;
  if (!metered.settler.compare_exchange_strong(none, 1)) return;
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int error = ::pthread_create(&thread, nullptr, &settle_all, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    metered.settler.store(3);
    metered.unsettled.store(true);
    log_line(LogLevel::error, "no thread for measuring GPU time (error %d): launches of this process %s", error,
             unmeasured_fate());
    return;
  }
  ::pthread_detach(thread);
  __cxa_atexit(&stop_settler, nullptr, __dso_handle);
}

}  // namespace headgate::limiter
