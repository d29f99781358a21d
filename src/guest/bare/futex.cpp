#include "guest/bare/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cerrno>
#include <climits>

#include "guest/bare/keep_errno.hpp"

namespace headgate::bare {
namespace {

// linux/futex.h of 5.16: struct futex_waitv, FUTEX2_SIZE_U32, one number on every architecture.
struct Waiter {
  std::uint64_t value, address;
  std::uint32_t flags, reserved;
};
constexpr long kFutexWaitv = 449;
constexpr std::uint32_t kWord32 = 2;
constexpr std::int64_t kShortRestNs = 250'000'000;

}  // namespace

void futex_wait_either(const std::atomic<std::uint32_t>* first, std::uint32_t a,
                       const std::atomic<std::uint32_t>* second, std::uint32_t b, std::int64_t timeout_ns) {
  const KeepErrno keep_errno;
  const Waiter both[] = {{a, reinterpret_cast<std::uintptr_t>(first), kWord32, 0},
                         {b, reinterpret_cast<std::uintptr_t>(second), kWord32, 0}};
  timespec until{};
  ::clock_gettime(CLOCK_MONOTONIC, &until);
  if (timeout_ns < INT64_MAX) {
    until.tv_sec += timeout_ns / 1'000'000'000;
    until.tv_nsec += timeout_ns % 1'000'000'000;
    if (until.tv_nsec >= 1'000'000'000) ++until.tv_sec, until.tv_nsec -= 1'000'000'000;
  }
  const long woken = ::syscall(kFutexWaitv, both, 2, 0, timeout_ns < INT64_MAX ? &until : nullptr, CLOCK_MONOTONIC);
  // The system call is missing, or a seccomp filter forbids it.
  if (woken < 0 && (errno == ENOSYS || errno == EPERM || errno == EINVAL) &&
      second->load(std::memory_order_relaxed) == b)
    futex_wait(first, a, timeout_ns < kShortRestNs ? timeout_ns : kShortRestNs);
}

void futex_wait(const std::atomic<std::uint32_t>* word, std::uint32_t expected, std::int64_t timeout_ns) {
  const KeepErrno keep_errno;
  timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  ::syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

void futex_wake(const std::atomic<std::uint32_t>* word, std::uint32_t most) {
  const KeepErrno keep_errno;
  ::syscall(SYS_futex, word, FUTEX_WAKE, most, nullptr, nullptr, 0);
}
void futex_wake_all(const std::atomic<std::uint32_t>* word) { futex_wake(word, INT_MAX); }
void futex_wake_one(const std::atomic<std::uint32_t>* word) { futex_wake(word, 1); }

}  // namespace headgate::bare
