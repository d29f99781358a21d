// Parses a text that is one integer and nothing else.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace headgate {

// Returns nothing if there are no digits, anything else (except '-' before a signed Number), or the value overflows.
template <typename Number = std::uint64_t>
[[nodiscard]] std::optional<Number> whole_number(std::string_view text, int base = 10) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace headgate
