// Composes a terminal screen line by line. Whatever the text, no line exceeds the terminal's width, and only our own
// colour sequences reach it.
#pragma once

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

}  // namespace headgate::cli
