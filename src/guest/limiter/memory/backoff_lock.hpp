// A lock that is held for some nanoseconds, and cheaper to free than bare::ShortLock: a waiter spins, then yields, then
// sleeps. A spinning real-time thread would keep the holder from ever running.
#pragma once

#include <sched.h>
#include <time.h>

#include <atomic>
#include <cstdint>

#include "guest/bare/keep_errno.hpp"
#include "guest/bare/short_lock.hpp"

namespace headgate::limiter {

class BackoffLock {
 public:
  void lock() {
    for (int tries = 1; held_.exchange(1, std::memory_order_acquire) != 0; ++tries) {
      if (tries < 64) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
      } else if (tries < 128) {
        ::sched_yield();
      } else {
        const bare::KeepErrno keep_errno;
        const timespec shortly{0, 50'000};
        ::nanosleep(&shortly, nullptr);
      }
    }
  }
  void unlock() { held_.store(0, std::memory_order_release); }
  // In a forked child: the thread that held it does not exist there.
  void reset() { held_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> held_{0};
};

using bare::Locked;

}  // namespace headgate::limiter
