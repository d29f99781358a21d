#include "guest/bare/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cerrno>
#include <climits>

namespace headgate::bare {

void futex_wait(const std::atomic<std::uint32_t>* word, std::uint32_t expected, std::int64_t timeout_ns) {
  const int saved = errno;
  timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  ::syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
  errno = saved;
}

void futex_wake_all(const std::atomic<std::uint32_t>* word) {
  const int saved = errno;
  ::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  errno = saved;
}

}  // namespace headgate::bare
