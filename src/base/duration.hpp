// Parses durations as people write them.
#pragma once

#include <chrono>
#include <expected>
#include <optional>
#include <string_view>

namespace headgate {

// A whole number and ns, us, ms, s, m, h or d, a hundred years at most. Nothing if the text is something else.
[[nodiscard]] std::optional<std::chrono::nanoseconds> read_time(std::string_view text);

struct DurationFault {
  std::string_view why, accepted;  // "is zero"; what is accepted
};

// Parses a whole number with s, m, h or d, up to a hundred years, which in nanoseconds still fits 63 bits.
[[nodiscard]] std::expected<std::chrono::seconds, DurationFault> read_duration(std::string_view text);

// Parses a sum of spans, as on zeusd's command line: "30d", "1h 30m", "2weeks". A month is 30.44 days, a year 365.25
// days. Returns nothing for other text, zero, or more than a hundred years.
[[nodiscard]] std::optional<std::chrono::seconds> read_spans(std::string_view text);

}  // namespace headgate
