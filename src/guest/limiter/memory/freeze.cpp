#include "guest/limiter/memory/memory_thread.hpp"

#include <time.h>
#include <unistd.h>

#include "guest/bare/clock.hpp"
#include "guest/bare/futex.hpp"
#include "guest/bare/keep_errno.hpp"
#include "guest/limiter/memory/reclaim_hint.hpp"
#include "guest/limiter/memory/residual.hpp"
#include "guest/limiter/route/driver.hpp"
#include "guest/limiter/route/presence.hpp"
#include "guest/limiter/session/membership.hpp"
#include "guest/limiter/stream/captures.hpp"
#include "guest/limiter/stream/streams.hpp"

namespace headgate::limiter {

constinit std::atomic<std::uint32_t> presence{kUsed};

namespace {

// The program is idle after this many quiet looks in a row. Time while the process was stopped counts as one look.
constexpr std::uint32_t kLooks = 8;
constexpr std::int64_t kRetryNs = 50'000'000;
constexpr std::uint32_t kLockTimeoutMs = 1000;
constexpr std::uint32_t kSayNoRoom = 40;  // may_say()

// cuda.h: CUcheckpointLockArgs. Without a timeout it waits for all GPU work.
struct LockArguments {
  std::uint32_t timeout_ms, reserved0;
  std::uint64_t reserved[7];
};
static_assert(sizeof(LockArguments) == 64);

std::uint32_t quiet_looks = 0;  // used by the memory thread
bool unwilling = false;         // used by the memory thread: the driver refused; try again after the next use

bool can_freeze() {
  return driver.cuCheckpointProcessLock != nullptr && driver.cuCheckpointProcessCheckpoint != nullptr &&
         driver.cuCheckpointProcessRestore != nullptr && driver.cuCheckpointProcessUnlock != nullptr;
}

void move_on(std::uint32_t next) {
  presence.store(next, std::memory_order_release);
  bare::futex_wake_all(&presence);
}

void tell_page(std::int64_t since_ns) {
  session.usage->slots[session.slot].frozen_since_ns.store(since_ns, std::memory_order_relaxed);
  (since_ns != 0 ? session.usage->freezes : session.usage->thaws).fetch_add(1, std::memory_order_relaxed);
}

// Returns the driver's result. Calls made meanwhile wait in come_back(), not in the driver.
abi::CUresult leave() {
  const int self = ::getpid();
  LockArguments arguments{kLockTimeoutMs, 0, {}};
  abi::CUresult result = driver.cuCheckpointProcessLock(self, reinterpret_cast<abi::CUcheckpointLockArgs*>(&arguments));
  if (result != abi::CUDA_SUCCESS) return result;
  result = driver.cuCheckpointProcessCheckpoint(self, nullptr);
  if (result != abi::CUDA_SUCCESS) driver.cuCheckpointProcessUnlock(self, nullptr);
  return result;
}

void go_away() {
  std::uint32_t quiet = kQuiet;
  if (!presence.compare_exchange_strong(quiet, kLeaving)) return;
  const abi::CUresult result = leave();
  unwilling = result != abi::CUDA_SUCCESS;
  if (unwilling) {
    log_line(LogLevel::info, "its memory stays on the GPU although it is idle: the driver answered %u",
             static_cast<unsigned>(result));
    return move_on(kQuiet);
  }
  tell_page(bare::host_ns());
  log_line(LogLevel::info, "idle: its memory was moved to the host");
  move_on(kAway);
  hint_reclaim([] { return presence.load(std::memory_order_relaxed) == kAway; });
}

void restore() {
  const int self = ::getpid();
  abi::CUresult result;
  while ((result = driver.cuCheckpointProcessRestore(self, nullptr)) == abi::CUDA_ERROR_OUT_OF_MEMORY) {
    if (may_say(kSayNoRoom))
      log_line(LogLevel::error, "its memory does not fit back onto the GPU, which others have filled: the call waits");
    const timespec shortly{0, kRetryNs};
    ::nanosleep(&shortly, nullptr);
  }
  if (result == abi::CUDA_SUCCESS) result = driver.cuCheckpointProcessUnlock(self, nullptr);
  if (result != abi::CUDA_SUCCESS)
    log_line(LogLevel::error, "the driver did not give its memory back: %u", static_cast<unsigned>(result));
  tell_page(0);
  for (std::uint32_t d = 0; d < session.held.device_count; ++d) residual_moved(d);
}

}  // namespace

void come_back() {
  const bare::KeepErrno keep_errno;
  for (std::uint32_t now; (now = presence.load(std::memory_order_acquire)) != kUsed;) {
    if (now == kQuiet) {
      if (presence.compare_exchange_strong(now, kUsed)) break;
    } else if (now == kAway) {
      if (!presence.compare_exchange_strong(now, kReturning)) continue;
      restore();
      move_on(kUsed);
    } else {
      bare::futex_wait(&presence, now, kRetryNs);
    }
  }
}

std::int64_t tend_presence(std::int64_t now_ns) {
  const std::uint32_t after_s = session.policy->freeze_after_s.load(std::memory_order_relaxed);
  std::uint32_t now = presence.load(std::memory_order_acquire);
  if (after_s == 0 || !can_freeze()) {
    if (now == kQuiet) presence.compare_exchange_strong(now, kUsed);
    return kNeverFreezes;
  }
  if (now == kUsed) {
    quiet_looks = 0;
    unwilling = false;
    presence.compare_exchange_strong(now, kQuiet);
  } else if (now == kQuiet && !unwilling && ++quiet_looks >= kLooks) {
    if (!is_work_unfinished() && !any_capture()) go_away();
    else quiet_looks = 0;
  }
  return now_ns + std::int64_t{after_s} * 1'000'000'000 / kLooks;
}

void presence_reset_after_fork() {
  presence.store(kUsed);
  quiet_looks = 0;
  unwilling = false;
}

}  // namespace headgate::limiter
