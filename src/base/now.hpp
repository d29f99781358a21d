// The time as a figure, of the two clocks that pictures, events and shares have theirs of.
#pragma once

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
[[nodiscard]] inline std::int64_t unix_now_s() { return static_cast<std::int64_t>(unix_now_ns() / 1'000'000'000); }

}  // namespace headgate
