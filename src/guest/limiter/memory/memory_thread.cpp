#include "guest/limiter/memory/memory_thread.hpp"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>

#include "guest/bare/clock.hpp"
#include "guest/bare/futex.hpp"
#include "guest/bare/keep_errno.hpp"
#include "guest/ledger/layout.hpp"
#include "guest/limiter/memory/pool.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/membership.hpp"
#include "guest/limiter/stream/captures.hpp"

extern "C" int __cxa_atexit(void (*function)(void*), void* argument, void* dso_handle);
extern "C" void* __dso_handle;

namespace headgate::limiter {
namespace {

enum State : std::uint32_t { kNone, kRunning, kToStop, kStopped };
constexpr std::int64_t kCaptureRetryNs = 50'000'000;

std::atomic<std::uint32_t> state{kNone};
std::atomic<std::uint32_t> chores{0};  // futex
std::atomic<bool> asleep{false};

bool running() { return state.load(std::memory_order_acquire) == kRunning; }

// Commands of the owner that this process has carried out.
struct Obeyed {
  std::uint32_t reclaims;
  bool drained;
};

// The count when the thread was requested: it may start much later, and must see what was asked meanwhile.
std::atomic<std::uint32_t> reclaims_before{0};

// Returns false if a capture forbids it now.
bool obey(Obeyed& obeyed) {
  const std::uint32_t reclaims = session.policy->reclaims.load(std::memory_order_relaxed);
  const bool drain = ledger::is_draining(*session.policy);
  if (reclaims == obeyed.reclaims && (!drain || obeyed.drained)) {
    obeyed.drained = drain;
    return true;
  }
  if (any_capture()) return false;
  for (std::uint32_t device = 0; device < session.held.device_count && running(); ++device) trim_pools(device);
  obeyed = {.reclaims = reclaims, .drained = drain};
  return true;
}

void* keep(void*) {
  if (real(driver.cuThreadExchangeStreamCaptureMode) != nullptr) {
    abi::CUstreamCaptureMode mode = abi::CU_STREAM_CAPTURE_MODE_RELAXED;
    driver.cuThreadExchangeStreamCaptureMode(&mode);
  }
  Obeyed obeyed{.reclaims = reclaims_before.load(), .drained = false};
  while (running()) {
    const std::uint32_t seen = chores.load(), command = session.policy->command_epoch.load(std::memory_order_acquire);
    const std::int64_t idle_due = tend_presence(bare::now_ns());
    // A frozen process has nothing to trim or measure: the share's account stays as it was.
    const bool here = presence.load() != kAway;
    const bool done = !here || obey(obeyed);
    const std::int64_t due = std::min(idle_due, here ? measure_moved(bare::now_ns()) : kNothingMoved);
    std::int64_t rest = due == INT64_MAX ? INT64_MAX : due - bare::now_ns();
    if (!done && rest > kCaptureRetryNs) rest = kCaptureRetryNs;
    if (rest <= 0) continue;
    asleep.store(true);
    if (chores.load() == seen && running())
      bare::futex_wait_either(&chores, seen, &session.policy->command_epoch, command, rest);
    asleep.store(false);
  }
  state.store(kStopped);
  return nullptr;
}

// Registered after the driver's own cuInit, so it runs before the driver shuts itself down.
void stop(void*) {
  std::uint32_t was = kRunning;
  if (!state.compare_exchange_strong(was, kToStop)) return;
  chores.fetch_add(1);
  bare::futex_wake_all(&chores);
  // A slow NVML may delay the thread longer; afterwards it makes no driver call.
  const timespec shortly{0, 20'000};
  for (int tries = 0; tries < 5'000 && state.load() != kStopped; ++tries) ::nanosleep(&shortly, nullptr);
}

void start() {
  std::uint32_t none = kNone;
  if (!state.compare_exchange_strong(none, kRunning)) return;
  reclaims_before.store(session.policy->reclaims.load(std::memory_order_relaxed));
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int error = ::pthread_create(&thread, nullptr, &keep, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    state.store(kStopped);
    log_line(LogLevel::warn, "no thread for measuring memory (error %d): what contexts take shows late", error);
    return;
  }
  ::pthread_detach(thread);
  __cxa_atexit(&stop, nullptr, __dso_handle);
}

}  // namespace

void wake_memory_thread() {
  const bare::KeepErrno keep_errno;
  chores.fetch_add(1);
  if (state.load(std::memory_order_acquire) == kNone) start();
  if (asleep.load()) bare::futex_wake_all(&chores);
}

void memory_thread_reset_after_fork() {
  state.store(kNone);
  asleep.store(false);
}

}  // namespace headgate::limiter
