#include "cli/term/frame.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/joined.hpp"
#include "base/split.hpp"
#include "base/utf8.hpp"
#include "cli/term/output.hpp"

namespace headgate::cli {
namespace {

struct Range {
  char32_t first, last;
};

// Whole blocks instead of single characters: unassigned ones inside are treated like their neighbours.
constexpr std::array<Range, 9> kNarrowest = {{{0x300, 0x36f},
                                              {0x483, 0x489},
                                              {0x591, 0x5bd},
                                              {0x610, 0x61a},
                                              {0x64b, 0x65f},
                                              {0x1ab0, 0x1aff},
                                              {0x1dc0, 0x1dff},
                                              {0x20d0, 0x20ff},
                                              {0xfe00, 0xfe0f}}};
constexpr std::array<Range, 13> kWide = {{{0x1100, 0x115f},
                                          {0x231a, 0x231b},
                                          {0x23e9, 0x23ec},
                                          {0x2614, 0x2615},
                                          {0x26a1, 0x26a1},
                                          {0x2e80, 0x303e},
                                          {0x3041, 0xa4cf},
                                          {0xac00, 0xd7a3},
                                          {0xf900, 0xfaff},
                                          {0xfe30, 0xfe6f},
                                          {0xff00, 0xff60},
                                          {0x1f300, 0x1faff},
                                          {0x20000, 0x3fffd}}};

bool among(char32_t point, const auto& ranges) {
  return std::ranges::any_of(ranges, [point](Range r) { return point >= r.first && point <= r.last; });
}

}  // namespace

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

Glyph first_glyph(std::string_view text) {
  if (text.empty()) return {};
  const std::size_t end = text.starts_with("\x1b[") ? text.find('m') : std::string_view::npos;
  if (end != std::string_view::npos) return {end + 1, 0};
  const std::size_t length = utf8_character(text);
  if (length < 2) return {1, 1};
  char32_t point = static_cast<unsigned char>(text[0]) & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) point = point << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
  return {length, among(point, kNarrowest) ? 0u : among(point, kWide) ? 2u : 1u};
}

unsigned cells(std::string_view text) {
  unsigned taken = 0;
  while (!text.empty()) {
    const Glyph glyph = first_glyph(text);
    taken += glyph.cells;
    text.remove_prefix(glyph.bytes);
  }
  return taken;
}

std::string cut(std::string_view text, unsigned width) {
  if (cells(text) <= width) return std::string(text);
  if (width == 0) return {};
  std::size_t end = 0;
  for (unsigned taken = 0; end < text.size();) {
    const Glyph glyph = first_glyph(text.substr(end));
    if (taken + glyph.cells > width - 1) break;
    taken += glyph.cells;
    end += glyph.bytes;
  }
  return std::string(text.substr(0, end)) + "~";
}

std::string cut_inside(std::string_view text, unsigned width) {
  if (cells(text) <= width || width < 3) return cut(text, width);
  const unsigned after = (width - 1) / 3;
  std::string_view end = text;
  while (cells(end) > after) end.remove_prefix(first_glyph(end).bytes);
  return cut(text, width - cells(end)) + std::string(end);
}

std::string fitted(std::string_view text, unsigned width) {
  const std::string shown = cut(text, width);
  return shown + std::string(width - cells(shown), ' ');
}

std::string fitted_right(std::string_view text, unsigned width) {
  const std::string shown = cut(text, width);
  return std::string(width - cells(shown), ' ') + shown;
}

std::vector<std::string> wrapped(std::string_view text, unsigned width) {
  std::vector<std::string> lines = {""};
  unsigned taken = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (taken > 0 && taken + 1 + cells(word) > width) lines.emplace_back(), taken = 0;
    if (taken > 0) lines.back() += ' ', ++taken;
    while (!word.empty()) {
      const Glyph glyph = first_glyph(word);
      if (taken > 0 && taken + glyph.cells > width) lines.emplace_back(), taken = 0;
      lines.back() += word.substr(0, glyph.bytes);
      taken += glyph.cells;
      word.remove_prefix(glyph.bytes);
    }
  }
  return lines;
}

}  // namespace headgate::cli
