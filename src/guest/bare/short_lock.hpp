// Locks of one process, never in a page: a stopped or killed process blocks only itself.
#pragma once

#include <atomic>
#include <cstdint>

#include "guest/bare/futex.hpp"

namespace headgate::bare {

// A lock for sections that are shorter than a system call, or that wait for the driver. A waiter spins, then sleeps
// until the unlock: with a sleep of fixed length, the GPU could be idle until that sleep ends.
class ShortLock {
 public:
  bool try_lock() {
    std::uint32_t free = kFree;
    return state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire);
  }
  void lock() {
    if (try_lock()) [[likely]]
      return;
    // Spin about a microsecond: less than the system call costs.
    for (int looks = 0; looks < 500; ++looks) {
      if (state_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
    }
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) futex_wait(&state_, kAwaited, kLongestWaitNs);
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) futex_wake_one(&state_);
  }
  // In a forked child: the thread that held it does not exist there.
  void reset() { state_.store(kFree, std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t kFree = 0, kHeld = 1, kAwaited = 2;
  static constexpr std::int64_t kLongestWaitNs = 1'000'000'000;

  std::atomic<std::uint32_t> state_{kFree};
};

template <typename Lock>
class [[nodiscard]] Locked {
 public:
  explicit Locked(Lock& lock) : lock_(lock) { lock_.lock(); }
  ~Locked() { lock_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  Lock& lock_;
};

}  // namespace headgate::bare
