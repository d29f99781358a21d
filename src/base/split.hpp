// Splits texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headgate {

// Returns the parts between the separators, empty ones too: of an empty text there is one.
[[nodiscard]] inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

}  // namespace headgate
