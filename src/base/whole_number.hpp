// A whole text as one whole number: digits and nothing else.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace headgate {

// Nothing where there are no digits, anything besides them (but '-' before a signed Number's), or more than Number
// holds.
template <typename Number = std::uint64_t>
[[nodiscard]] std::optional<Number> whole_number(std::string_view text, int base = 10) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace headgate
