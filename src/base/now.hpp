// The time as a figure, of the two clocks that snapshots, events and shares have theirs of.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace headgate {

// Nanoseconds of the clock that nobody sets.
[[nodiscard]] inline std::uint64_t steady_now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// Since 1970, of the clock that people set forward and back.
[[nodiscard]] inline std::uint64_t unix_now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count());
}

// Seconds since 1970 by which leases end: as people's clock had them when this process began, and gone on since by the
// clock that nobody sets, sleep included. A step of the former (NTP's at a boot, a mistake and its correction) ends
// nobody's lease.
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
