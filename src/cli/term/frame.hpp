// Measures and cuts text in terminal cells, and composes a screen line by line. Whatever the text, no line exceeds the
// terminal's width, and only our own colour sequences reach it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace headgate::cli {

struct FrameSize {
  unsigned columns = 80;
  unsigned rows = 24;
};

struct FrameStyle {
  bool colour = false;
  bool ascii = false;  // otherwise UTF-8 block characters
};

// Composes one line from left to right. Control characters are replaced (output.hpp); in ASCII style other characters
// become '?'. What does not fit is dropped.
class FrameLine {
 public:
  FrameLine(unsigned width, FrameStyle style) : width_(width), style_(style) {}

  // `look`: SGR parameters ("1", "30;46"), used if colours are on; empty for plain text.
  FrameLine& add(std::string_view text, std::string_view look = {});
  // Adds blanks up to `column`.
  FrameLine& pad_to(unsigned column);
  [[nodiscard]] unsigned taken() const { return taken_; }
  [[nodiscard]] unsigned left() const { return width_ - taken_; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  unsigned width_;
  FrameStyle style_;
  unsigned taken_ = 0;
  std::string text_;
};

// The lines with a line feed between them, without blanks at their ends.
[[nodiscard]] std::string frame_text(const std::vector<FrameLine>& lines);

// One cell of a bar; the glyph is our own and one cell wide.
struct BarCell {
  std::string_view glyph;
  std::string look;
};
void add_cells(FrameLine& line, const std::vector<BarCell>& cells);

// Crops text with our own colours to `size`: long lines end in '~', and if there are too many lines, the last one says
// how many are left out.
[[nodiscard]] std::string cropped(std::string_view text, FrameSize size);

// Draws values of 0 to 1 as eighth blocks, the newest at the right end, padded with blanks at the left.
[[nodiscard]] std::string sparkline(const std::vector<double>& values, unsigned width, FrameStyle style);

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
