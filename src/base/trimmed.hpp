// Strips blanks and tabs from both ends of a text.
#pragma once

#include <string_view>

namespace headgate {

[[nodiscard]] constexpr std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace headgate
