// Lengths of time as people write them.
#pragma once

#include <chrono>
#include <expected>
#include <string_view>

namespace headgate {

struct DurationFault {
  std::string_view why, accepted;  // "is zero"; what would be read
};

// A whole number and s, m, h or d, a hundred years at most: in nanoseconds it still fits 63 bits.
[[nodiscard]] std::expected<std::chrono::seconds, DurationFault> read_duration(std::string_view text);

}  // namespace headgate
