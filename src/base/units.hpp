// Formats quantities for people. Always binary units, one decimal, no locale.
#pragma once

#include <cstdint>
#include <string>

namespace headgate {

inline constexpr std::uint64_t kMiB = 1ull << 20, kGiB = 1ull << 30;

// "35.3 GiB", "512 MiB", "17 bytes".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);
// "25 %", "12.5 %", "0.05 %", from parts per million.
[[nodiscard]] std::string percent_text(std::uint64_t ppm);
// Like bytes_text, but exact: "2.0 GiB", "2049 MiB", "2.0 GiB (2147483649 bytes)".
[[nodiscard]] std::string exact_bytes_text(std::uint64_t bytes);
// Suggests what a size without a unit may mean, by its length: "8GiB or 8MiB", "8000MiB", "8589934592B".
[[nodiscard]] std::string with_likely_unit(const std::string& number);
// "24.9 %" from parts per million: a measured rate, cut to one decimal.
[[nodiscard]] std::string rate_text(std::uint32_t ppm);
// "1.2 s", "350 ms", "3 min 20 s", "2 h 5 min".
[[nodiscard]] std::string duration_text(std::uint64_t ns);
// For narrow columns: "15.1G", "512M", "17B".
[[nodiscard]] std::string short_bytes_text(std::uint64_t bytes);
// For narrow columns, in whole units: "45s", "12m", "3h12m", "5d"; "0s" below a second.
[[nodiscard]] std::string short_duration_text(std::uint64_t ns);
// "14:02:11" from CLOCK_REALTIME nanoseconds in the local time zone (UTC if there is none).
[[nodiscard]] std::string clock_text(std::uint64_t realtime_ns);

}  // namespace headgate
