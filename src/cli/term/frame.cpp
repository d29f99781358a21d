#include "cli/term/frame.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/joined.hpp"
#include "base/split.hpp"
#include "cli/term/output.hpp"
#include "cli/term/text_width.hpp"

namespace headgate::cli {

FrameLine& FrameLine::add(std::string_view text, std::string_view look) {
  std::string clean = harmless(text);
  std::string shown;
  unsigned taken = 0;
  for (std::string_view rest = clean; !rest.empty();) {
    const Glyph glyph = first_glyph(rest);
    const bool beyond = style_.ascii && static_cast<unsigned char>(rest[0]) >= 0x80;
    const unsigned wide = beyond ? 1 : glyph.cells;
    if (taken_ + taken + wide > width_) break;
    if (beyond) shown += '?';
    else shown += rest.substr(0, glyph.bytes);
    taken += wide;
    rest.remove_prefix(glyph.bytes);
  }
  taken_ += taken;
  if (look.empty() || !style_.colour || shown.empty()) text_ += shown;
  else text_ += "\x1b[" + std::string(look) + "m" + shown + "\x1b[0m";
  return *this;
}

FrameLine& FrameLine::pad_to(unsigned column) {
  if (column > taken_) add(std::string(column - taken_, ' '));
  return *this;
}

std::string frame_text(const std::vector<FrameLine>& lines) {
  return joined(lines, "\n", [](const FrameLine& line) {
    return std::string_view(line.text()).substr(0, line.text().find_last_not_of(' ') + 1);
  });
}

void add_cells(FrameLine& line, const std::vector<BarCell>& cells) {
  for (std::size_t i = 0; i < cells.size();) {
    std::string run;
    std::size_t end = i;
    for (; end < cells.size() && cells[end].look == cells[i].look; ++end) run += cells[end].glyph;
    line.add(run, cells[i].look);
    i = end;
  }
}

std::string cropped(std::string_view text, FrameSize size) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  auto lines = split(text, '\n');
  if (const std::size_t all = lines.size(); all > size.rows) {
    lines.resize(size.rows);
    lines.back() = "... " + std::to_string(all - size.rows + 1) + " more lines";
  }
  return joined(lines, "\n", [&size](const std::string& line) {
    return cut(line, size.columns) + (line.contains('\x1b') ? "\x1b[0m" : "");
  });
}

std::string sparkline(const std::vector<double>& values, unsigned width, FrameStyle style) {
  constexpr std::array<std::string_view, 8> kEighths = {"\u2581", "\u2582", "\u2583", "\u2584",
                                                        "\u2585", "\u2586", "\u2587", "\u2588"};
  constexpr std::array<std::string_view, 8> kAscii = {"_", ".", "-", "-", "=", "+", "*", "#"};
  const auto& marks = style.ascii ? kAscii : kEighths;
  const std::size_t count = std::min<std::size_t>(values.size(), width);
  std::string text(width - count, ' ');
  for (std::size_t i = values.size() - count; i < values.size(); ++i) {
    const double value = std::isfinite(values[i]) ? std::clamp(values[i], 0.0, 1.0) : 0.0;
    text += marks[std::min<std::size_t>(7, static_cast<std::size_t>(value * 8))];
  }
  return text;
}

}  // namespace headgate::cli
