// Joins texts.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace headgate {

// Returns the parts in their order with the separator between them. `text_of` makes a part's text, std::string or
// std::string_view: a member or a function.
template <typename Parts, typename TextOf = std::identity>
[[nodiscard]] std::string joined(const Parts& parts, std::string_view separator, TextOf text_of = {}) {
  std::string all;
  bool first = true;
  for (const auto& part : parts) {
    if (!first) all += separator;
    all += std::invoke(text_of, part);
    first = false;
  }
  return all;
}

}  // namespace headgate
