// Text in the cells of a terminal: how wide it is, and cut to a width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace headgate::cli {

// The first character of a text: its bytes, and the cells it takes: 0 where it only changes the one before (an accent),
// 2 for what East Asian Width calls wide (Unicode 15, UAX #11). Bytes that are no UTF-8 count one by one.
struct Glyph {
  std::size_t bytes = 0;
  unsigned cells = 0;
};
[[nodiscard]] Glyph first_glyph(std::string_view text);

[[nodiscard]] unsigned cells(std::string_view text);

// Cut to at most `width` cells; what was cut off is marked by a '~' in the last cell.
[[nodiscard]] std::string cut(std::string_view text, unsigned width);
// The same, cut out of the middle: names that differ at their ends stay apart.
[[nodiscard]] std::string cut_inside(std::string_view text, unsigned width);
// Cut or filled up with blanks to exactly `width` cells: text to the left, numbers to the right.
[[nodiscard]] std::string fitted(std::string_view text, unsigned width);
[[nodiscard]] std::string fitted_right(std::string_view text, unsigned width);
// In lines of at most `width` cells, between words, but for a word that is wider than that. At least one line.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, unsigned width);

}  // namespace headgate::cli
