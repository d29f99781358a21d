// Lengths of time as people write them.
#pragma once

#include <chrono>
#include <expected>
#include <optional>
#include <string_view>

namespace headgate {

struct DurationFault {
  std::string_view why, accepted;  // "is zero"; what would be read
};

// A whole number and s, m, h or d, a hundred years at most: in nanoseconds it still fits 63 bits.
[[nodiscard]] std::expected<std::chrono::seconds, DurationFault> read_duration(std::string_view text);

// Spans as zeusd's command line takes them, which are added: "30d", "1h 30m", "2weeks". A month is 30.44 days, a year
// 365.25. Nothing where the text is something else, or zero, or more than a hundred years.
[[nodiscard]] std::optional<std::chrono::seconds> read_spans(std::string_view text);

}  // namespace headgate
