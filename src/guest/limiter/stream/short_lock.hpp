// The lock of tables and streams that are this process's alone.
#pragma once

#include <atomic>
#include <cstdint>

#include "guest/bare/futex.hpp"

namespace headgate::limiter {

// Short, never held over a wait of ours but by a launch on several GPUs at once; a blocked driver call under it blocks
// only launches that the driver blocks too. Who holds it while another looks is mostly the settler, which asks the
// driver: who waits is woken at its end, as a sleep of a fixed length would leave the GPU idle for the rest of it.
class ShortLock {
 public:
  bool try_lock() {
    std::uint32_t free = kFree;
    return state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire);
  }
  void lock() {
    // A microsecond: less than the system call.
    for (int looks = 0; looks < 500; ++looks) {
      if (state_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
    }
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree)
      bare::futex_wait(&state_, kAwaited, kLongestWaitNs);
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) bare::futex_wake_one(&state_);
  }
  // Of a fork's child: whoever held it is not there.
  void reset() { state_.store(kFree, std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t kFree = 0, kHeld = 1, kAwaited = 2;
  static constexpr std::int64_t kLongestWaitNs = 1'000'000'000;

  std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace headgate::limiter
