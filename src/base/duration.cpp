#include "base/duration.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include "base/trimmed.hpp"
#include "base/whole_number.hpp"

namespace headgate {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::int64_t kHundredYearsNs = 36'500ll * 86'400 * kNsPerSecond;

// Seconds of one of the spellings that humantime takes; 0: no unit.
std::int64_t seconds_of_unit(std::string_view unit) {
  constexpr struct {
    std::int64_t seconds;
    std::string_view names;  // separated by blanks
  } kUnits[] = {{1, " s sec secs second seconds "}, {60, " m min mins minute minutes "},
                {3600, " h hr hrs hour hours "},    {86'400, " d day days "},
                {604'800, " w week weeks "},        {2'630'016, " M month months "},
                {31'557'600, " y year years "}};
  for (const auto& [seconds, names] : kUnits)
    if (!unit.empty() && names.contains(" " + std::string(unit) + " ")) return seconds;
  return 0;
}

}  // namespace

std::optional<std::chrono::nanoseconds> read_time(std::string_view text) {
  constexpr std::pair<std::string_view, std::int64_t> kUnits[] = {{"ns", 1},
                                                                  {"us", 1'000},
                                                                  {"ms", 1'000'000},
                                                                  {"s", kNsPerSecond},
                                                                  {"m", 60 * kNsPerSecond},
                                                                  {"h", 3600 * kNsPerSecond},
                                                                  {"d", 86'400 * kNsPerSecond}};
  const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto unit = std::ranges::find(kUnits, text.substr(digits), &std::pair<std::string_view, std::int64_t>::first);
  const auto number = whole_number<std::int64_t>(text.substr(0, digits));
  if (unit == std::end(kUnits) || !number || *number > kHundredYearsNs / unit->second) return std::nullopt;
  return std::chrono::nanoseconds(*number * unit->second);
}

std::expected<std::chrono::seconds, DurationFault> read_duration(std::string_view text) {
  constexpr std::string_view kAccepted = "a whole number and s, m, h or d: 90s, 5m, 2h, 7d";
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  constexpr std::string_view kUnits = "smhd";
  if (digits == 0 || digits + 1 != text.size() || !kUnits.contains(text.back()))
    return std::unexpected(DurationFault{"is no length of time", kAccepted});
  const auto time = read_time(text);
  if (!time) return std::unexpected(DurationFault{"is too long", "at most 36500d, which is a hundred years"});
  if (time->count() == 0) return std::unexpected(DurationFault{"is zero", kAccepted});
  return std::chrono::duration_cast<std::chrono::seconds>(*time);
}

std::optional<std::chrono::seconds> read_spans(std::string_view text) {
  constexpr std::int64_t kMost = 100LL * 366 * 86'400;
  std::int64_t total = 0;
  for (std::string_view rest = trimmed(text); !rest.empty();) {
    const auto digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    const auto number = whole_number<std::int64_t>(rest.substr(0, digits));
    rest.remove_prefix(digits);
    const auto letters = std::min(rest.find_first_of("0123456789 \t"), rest.size());
    const std::int64_t unit = seconds_of_unit(rest.substr(0, letters));
    if (!number || unit == 0 || *number > (kMost - total) / unit) return std::nullopt;
    total += *number * unit;
    rest = trimmed(rest.substr(letters));
  }
  return total == 0 ? std::nullopt : std::optional(std::chrono::seconds(total));
}

}  // namespace headgate
