// A picture for a terminal, line by line. Whatever text is put in: no line is wider than the terminal, and nothing but
// our own colours steers it.
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
  bool ascii = false;  // else block characters in UTF-8
};

// One line being written from left to right. Text is made harmless (output.hpp), in ASCII style what lies beyond
// becomes '?', and what does not fit is left out.
class FrameLine {
 public:
  FrameLine(unsigned width, FrameStyle style) : width_(width), style_(style) {}

  // `look`: the numbers of an SGR sequence ("1", "30;46"), used where there are colours; empty for plain text.
  FrameLine& add(std::string_view text, std::string_view look = {});
  // Blanks up to `column`.
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

// One cell of a bar; the glyph is one of ours, one cell wide.
struct BarCell {
  std::string_view glyph;
  std::string look;
};
void add_cells(FrameLine& line, const std::vector<BarCell>& cells);

// Text with our own colours in it, cut to a terminal of `size`: too long lines end in '~', and where there are too many
// the last one says how many are left out.
[[nodiscard]] std::string cropped(std::string_view text, FrameSize size);

// Values of 0 to 1 as a line of eighths, the newest last and at the right end; what is missing at the left is blank.
[[nodiscard]] std::string sparkline(const std::vector<double>& values, unsigned width, FrameStyle style);

}  // namespace headgate::cli
