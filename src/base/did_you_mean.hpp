// What somebody may have meant who typed a word that there is not. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headgate {

// The word that is the fewest slips away (a letter too many, too few, wrong, or two swapped), where that is one slip,
// or two of a word of five letters and more; "" where none is so near.
[[nodiscard]] std::string did_you_mean(std::string_view typed, const std::vector<std::string>& words);

}  // namespace headgate
