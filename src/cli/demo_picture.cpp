#include "cli/demo_picture.hpp"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

#include "base/units.hpp"
#include "cli/cells.hpp"

namespace headgate::cli {

namespace {

[[gnu::format(printf, 1, 2)]] std::string printed(const char* format, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

constexpr unsigned kNameCells = 9;
constexpr unsigned kWorkCells = 16;

struct Ink {
  std::string_view full, empty, mark;
};

Ink ink(FrameStyle style) { return style.ascii ? Ink{"#", ".", "|"} : Ink{"\u2588", "\u2591", "\u2502"}; }

std::string coloured(std::string_view text, const char* code, FrameStyle style) {
  return style.colour ? "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m" : std::string(text);
}

constexpr const char* kShareColours[] = {"36", "35", "33", "32"};

// `part` of the bar is full; the cell of `mark` shows where the limit is. A negative mark: none.
std::string bar(double part, double mark, unsigned width, const char* colour, FrameStyle style) {
  const Ink with = ink(style);
  const auto cell_of = [width](double ratio) {
    return static_cast<int>(std::lround(std::clamp(ratio, 0.0, 1.0) * width));
  };
  const int full = cell_of(part);
  const int mark_cell = mark < 0 ? -1 : std::min(cell_of(mark), static_cast<int>(width) - 1);
  std::string filled, rest;
  for (int i = 0; i < static_cast<int>(width); ++i) {
    (i < full ? filled : rest) += i == mark_cell ? with.mark : i < full ? with.full : with.empty;
  }
  return coloured(filled, colour, style) + coloured(rest, "90", style);
}

double ratio(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string percent(std::uint32_t ppm) { return printed("%.1f %%", ppm * 1e-4); }

class Frame {
 public:
  Frame(FrameSize size, FrameStyle style) : size_(size), style_(style) {}

  // Cut to the frame; a text with colours has to fit by itself.
  void line(std::string_view text) { lines_.push_back(fitted(text, std::min(cells(text), size_.columns))); }
  void bold(std::string_view text) {
    lines_.push_back(coloured(fitted(text, std::min(cells(text), size_.columns)), "1", style_));
  }
  void drawn(std::string text) { lines_.push_back(std::move(text)); }
  [[nodiscard]] unsigned rows_left() const {
    return size_.rows > lines_.size() ? size_.rows - static_cast<unsigned>(lines_.size()) : 0;
  }

  [[nodiscard]] std::string text() const {
    std::string result;
    for (std::size_t i = 0; i < std::min<std::size_t>(lines_.size(), size_.rows); ++i) {
      result += (i == 0 ? "" : "\n") + lines_[i];
    }
    return result;
  }

 private:
  FrameSize size_;
  FrameStyle style_;
  std::vector<std::string> lines_;
};

void draw_time(Frame& frame, const DemoState& state, FrameSize size, FrameStyle style) {
  // " NAME WORK BAR asked got"
  const unsigned fixed = 1 + kNameCells + 1 + kWorkCells + 1 + 1 + 7 + 1 + 8;
  const unsigned width = size.columns - fixed;
  frame.bold(" " + fitted("SHARE", kNameCells) + " " + fitted("WORK", kWorkCells) + " " +
             fitted(width >= 32 ? "GPU TIME, last second (mark: limit)" : "GPU TIME, last second", width) +
             printed(" %7s %8s", "asked", "got"));
  std::uint32_t busy = 0;
  for (std::size_t i = 0; i < state.shares.size(); ++i) {
    const DemoShare& share = state.shares[i];
    busy += share.got_ppm;
    frame.drawn(" " + fitted(share.name, kNameCells) + " " + fitted(share.work, kWorkCells) + " " +
                bar(share.got_ppm * 1e-6, share.asked_ppm * 1e-6, width, kShareColours[i % 4], style) +
                printed(" %5.0f %% %8s", share.asked_ppm * 1e-4, share.running ? percent(share.got_ppm).c_str() : "-"));
  }
  frame.drawn(" " + fitted("whole GPU", kNameCells) + " " + fitted("", kWorkCells) + " " +
              bar(busy * 1e-6, -1, width, "37", style) + printed(" %7s %8s", "", percent(busy).c_str()));
}

void draw_memory(Frame& frame, const DemoState& state, FrameSize size, FrameStyle style) {
  const unsigned fixed = 1 + kNameCells + 1 + 1 + 24;
  const unsigned width = size.columns - fixed;
  frame.bold(" " + fitted("SHARE", kNameCells) + " " + fitted("MEMORY", width) + " " + printed("%24s", "used / limit"));
  for (std::size_t i = 0; i < state.shares.size(); ++i) {
    const DemoShare& share = state.shares[i];
    frame.drawn(
        " " + fitted(share.name, kNameCells) + " " +
        bar(ratio(share.memory_used_bytes, share.memory_limit_bytes), -1, width, kShareColours[i % 4], style) + " " +
        printed("%24s", (bytes_text(share.memory_used_bytes) + " / " + bytes_text(share.memory_limit_bytes)).c_str()));
  }
}

}  // namespace

std::string render(const DemoState& state, FrameSize size, FrameStyle style) {
  size.columns = std::max(size.columns, kSmallestFrame.columns);
  Frame frame(size, style);
  const std::string clock = printed("%.0f s of %.0f s ", std::floor(state.elapsed_s), state.total_s);
  const std::string title = " headgate demo   SIMULATED   " + state.gpu;
  const unsigned gap = size.columns - std::min(size.columns, cells(title) + cells(clock));
  frame.bold(fitted(title, size.columns - cells(clock) - (gap > 0 ? gap : 0)) + std::string(gap, ' ') + clock);
  // Blank lines go first when the terminal is low.
  const bool roomy = size.rows >= 14 + 2 * state.shares.size();
  if (roomy) frame.line("");
  draw_time(frame, state, size, style);
  if (roomy) frame.line("");
  draw_memory(frame, state, size, style);
  if (roomy) frame.line("");
  if (frame.rows_left() > 2) {
    frame.bold(" EVENTS");
    const std::size_t fit = std::min<std::size_t>(state.events.size(), frame.rows_left() - 1);
    for (std::size_t i = state.events.size() - fit; i < state.events.size(); ++i) {
      frame.line("  " + state.events[i]);
    }
  }
  while (frame.rows_left() > 1) frame.line("");
  frame.line(" Ctrl-C ends it");
  return frame.text();
}

std::string render_line(const DemoState& state) {
  std::string line = printed("SIMULATED %3.0f s", std::floor(state.elapsed_s));
  for (const DemoShare& share : state.shares) {
    line += printed("   %s %s of %.0f %%, %s of %s", share.name.c_str(),
                    share.running ? percent(share.got_ppm).c_str() : "-", share.asked_ppm * 1e-4,
                    bytes_text(share.memory_used_bytes).c_str(), bytes_text(share.memory_limit_bytes).c_str());
  }
  return line;
}

std::string render_verdict(const std::vector<DemoVerdict>& verdicts, double measured_s) {
  std::string text = printed("SIMULATED: what the simulated GPU saw over %.1f s\n", measured_s);
  text += printed("%-9s  %8s  %8s  %7s   %-37s\n", "SHARE", "ASKED", "GOT", "ERROR", "MEMORY most held / limit");
  bool all_kept = true;
  for (const DemoVerdict& verdict : verdicts) {
    all_kept = all_kept && verdict.kept;
    const std::string memory =
        bytes_text(verdict.memory_got_bytes) + " / " + bytes_text(verdict.memory_limit_bytes) +
        (verdict.memory_asked_bytes > verdict.memory_limit_bytes ? ", asked " + bytes_text(verdict.memory_asked_bytes)
                                                                 : "");
    if (verdict.compute_judged) {
      text += printed("%-9s  %6.2f %%  %6.2f %%  %+7.2f   %-37s  %s\n", verdict.share.c_str(), verdict.asked_percent,
                      verdict.got_percent, verdict.got_percent - verdict.asked_percent, memory.c_str(),
                      verdict.kept ? "kept" : "NOT KEPT");
    } else {
      text += printed("%-9s  %8s  %8s  %7s   %-37s  %s\n", verdict.share.c_str(), "-", "-", "-", memory.c_str(),
                      verdict.kept ? "refused, kept" : "NOT KEPT");
    }
  }
  text += all_kept ? "Every limit was kept: compute within 1 point, memory to the byte.\n"
                   : "A limit was not kept (compute is allowed 1 point, memory no byte).\n";
  return text;
}

}  // namespace headgate::cli
