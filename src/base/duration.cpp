#include "base/duration.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/whole_number.hpp"

namespace headgate {

std::expected<std::chrono::seconds, DurationFault> read_duration(std::string_view text) {
  constexpr std::string_view kAccepted = "a whole number and s, m, h or d: 90s, 5m, 2h, 7d";
  constexpr std::pair<char, std::int64_t> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86'400}};
  const auto unit = std::ranges::find(kUnits, text.empty() ? '\0' : text.back(), &std::pair<char, std::int64_t>::first);
  if (unit == std::end(kUnits)) return std::unexpected(DurationFault{"is no length of time", kAccepted});
  const auto number = whole_number<std::uint32_t>(text.substr(0, text.size() - 1));
  if (!number) return std::unexpected(DurationFault{"is no length of time", kAccepted});
  if (*number == 0) return std::unexpected(DurationFault{"is zero", kAccepted});
  constexpr std::int64_t kLongest = 36'500ll * 86'400;
  if (*number * unit->second > kLongest)
    return std::unexpected(DurationFault{"is too long", "at most 36500d, which is a hundred years"});
  return std::chrono::seconds(*number * unit->second);
}

}  // namespace headgate
