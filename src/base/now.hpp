// The clocks that snapshots, events, shares and threads use.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace headgate {

// Returns nanoseconds of the steady clock.
[[nodiscard]] inline std::uint64_t steady_now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// Returns nanoseconds since 1970, of the clock that can be set.
[[nodiscard]] inline std::uint64_t unix_now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count());
}

// Returns the calling thread's processor time.
[[nodiscard]] inline std::chrono::nanoseconds thread_time() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

// Returns seconds since 1970 for the ends of leases: the wall clock at process start plus the boot-time clock since
// then, which includes suspend. A step of the wall clock (NTP at boot, a correction) therefore ends no lease.
[[nodiscard]] inline std::int64_t lease_now_s() {
  const auto since_boot_s = [] {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return std::int64_t{now.tv_sec};
  };
  static const std::int64_t boot_s = static_cast<std::int64_t>(unix_now_ns() / 1'000'000'000) - since_boot_s();
  return boot_s + since_boot_s();
}

}  // namespace headgate
