// Small text tools without run-time dependencies. On failure std::string_view's substr() and at() call into libstdc++,
// so guest code slices with these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace headgate::grant {

[[nodiscard]] constexpr std::string_view from(std::string_view text, std::size_t start) {
  return start >= text.size() ? std::string_view{} : std::string_view(text.data() + start, text.size() - start);
}

[[nodiscard]] constexpr std::string_view first(std::string_view text, std::size_t count) {
  return count >= text.size() ? text : std::string_view(text.data(), count);
}

[[nodiscard]] constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
[[nodiscard]] constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
[[nodiscard]] constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

[[nodiscard]] constexpr std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text = from(text, 1);
  while (!text.empty() && is_blank(text.back())) text = first(text, text.size() - 1);
  return text;
}

// ASCII only: the locale belongs to the host program.
[[nodiscard]] constexpr bool same_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

[[nodiscard]] constexpr bool starts_ignoring_case(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && same_ignoring_case(first(text, prefix.size()), prefix);
}

// Returns the position of c, or text.size().
[[nodiscard]] constexpr std::size_t position(std::string_view text, char c) {
  std::size_t i = 0;
  while (i < text.size() && text[i] != c) ++i;
  return i;
}

// Parses decimal digits and nothing else; returns false unless the number is below `bound`.
[[nodiscard]] constexpr bool whole_number(std::string_view text, std::uint64_t bound, std::uint64_t& value) {
  if (text.empty()) return false;
  std::uint64_t number = 0;
  for (const char c : text) {
    if (!is_digit(c)) return false;
    if (__builtin_mul_overflow(number, 10ull, &number)) return false;
    if (__builtin_add_overflow(number, static_cast<std::uint64_t>(c - '0'), &number)) return false;
  }
  value = number;
  return number < bound;
}

}  // namespace headgate::grant
