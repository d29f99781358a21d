// Waiting for a lock that is held for some nanoseconds: spin, then yield, then sleep. A spinning real-time thread would
// keep the holder from ever running.
#pragma once

#include <sched.h>
#include <time.h>

#include <cerrno>

namespace headgate::limiter {

class Backoff {
 public:
  void wait() {
    ++tries_;
    if (tries_ < 64) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else if (tries_ < 128) {
      ::sched_yield();
    } else {
      const int saved = errno;
      const timespec shortly{0, 50'000};
      ::nanosleep(&shortly, nullptr);
      errno = saved;
    }
  }

 private:
  int tries_ = 0;
};

}  // namespace headgate::limiter
