// Width of text in terminal cells, and cutting to a width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace headgate::cli {

// The first character of a text: its bytes and cells. Combining characters take 0 cells; East Asian wide ones 2
// (Unicode 15, UAX #11). Invalid UTF-8 counts byte by byte. A colour of ours (SGR) is one character of 0 cells.
struct Glyph {
  std::size_t bytes = 0;
  unsigned cells = 0;
};
[[nodiscard]] Glyph first_glyph(std::string_view text);

[[nodiscard]] unsigned cells(std::string_view text);

// Cuts to at most `width` cells; a '~' in the last cell marks the cut.
[[nodiscard]] std::string cut(std::string_view text, unsigned width);
// The same, cut in the middle, so that names that differ at their ends stay distinct.
[[nodiscard]] std::string cut_inside(std::string_view text, unsigned width);
// Cut or padded with blanks to exactly `width` cells: text to the left, numbers to the right.
[[nodiscard]] std::string fitted(std::string_view text, unsigned width);
[[nodiscard]] std::string fitted_right(std::string_view text, unsigned width);
// Wraps between words into lines of at most `width` cells, except for longer words. Returns at least one line.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, unsigned width);

}  // namespace headgate::cli
