#include "cli/term/frame.hpp"

#include <algorithm>
#include <array>
#include <cmath>

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

void add_cells(FrameLine& line, const std::vector<BarCell>& cells) {
  for (std::size_t i = 0; i < cells.size();) {
    std::string run;
    std::size_t end = i;
    for (; end < cells.size() && cells[end].look == cells[i].look; ++end) run += cells[end].glyph;
    line.add(run, cells[i].look);
    i = end;
  }
}

namespace {

// Returns the length of an SGR sequence at the front; 0 if there is none.
std::size_t look_length(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const std::size_t end = text.find('m');
  return end == std::string_view::npos ? 0 : end + 1;
}

unsigned shown_cells(std::string_view line) {
  unsigned all = 0;
  while (!line.empty()) {
    const std::size_t look = look_length(line);
    if (look == 0) all += first_glyph(line).cells;
    line.remove_prefix(look > 0 ? look : first_glyph(line).bytes);
  }
  return all;
}

std::string cut_line(std::string_view line, unsigned width) {
  std::string kept;
  unsigned taken = 0;
  bool looks = false;
  while (!line.empty()) {
    if (const std::size_t look = look_length(line); look > 0) {
      kept += line.substr(0, look);
      looks = true;
      line.remove_prefix(look);
      continue;
    }
    const Glyph glyph = first_glyph(line);
    // The last cell is reserved for the mark, unless the text ends there.
    if (taken + glyph.cells > width || (taken + glyph.cells == width && shown_cells(line.substr(glyph.bytes)) > 0)) {
      kept += "~";
      break;
    }
    kept += line.substr(0, glyph.bytes);
    taken += glyph.cells;
    line.remove_prefix(glyph.bytes);
  }
  return looks ? kept + "\x1b[0m" : kept;
}

}  // namespace

std::string cropped(std::string_view text, FrameSize size) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  const std::size_t all = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
  const std::size_t fit = all <= size.rows ? all : size.rows - 1;
  std::string shown;
  for (std::size_t i = 0; i < fit; ++i) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    shown += (i == 0 ? "" : "\n") + cut_line(text.substr(0, end), size.columns);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (fit < all)
    shown += (fit == 0 ? "" : "\n") + cut_line("... " + std::to_string(all - fit) + " more lines", size.columns);
  return shown;
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
