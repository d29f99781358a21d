// Suggests a known word for a mistyped one. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headgate {

// Returns the closest word by edits (a letter added, dropped, replaced, or two swapped), within one edit, or two for
// words of five letters or more; "" if there is none.
[[nodiscard]] std::string did_you_mean(std::string_view typed, const std::vector<std::string>& words);

}  // namespace headgate
