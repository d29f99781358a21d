#include "demo/demo_picture.hpp"

#include <algorithm>

#include "cli/term/text_width.hpp"
#include "cli/top/picture.hpp"
#include "demo/tenants.hpp"

namespace headgate::demo {

using namespace cli;  // terminal, views, daemon client
namespace {

constexpr unsigned kNameCells = 10;
constexpr unsigned kDoesCells = 31;

std::vector<FrameLine> story_lines(const DemoState& state, unsigned width, FrameStyle style) {
  std::vector<FrameLine> lines;
  const auto line = [&](const std::string& name, const std::string& does, const std::string& headgate,
                        std::string_view look) {
    FrameLine one(width, style);
    one.add(" ").add(fitted(name, kNameCells), look).add(" ").add(fitted(does, kDoesCells), look).add(" ");
    lines.push_back(one.add(cut(headgate, one.left()), look));
  };
  line("TENANT", "WHAT IT DOES", "WHAT HEADGATE DOES", "1");
  for (const DemoLine& each : state.lines) line(each.name, each.does, each.headgate, "");
  return lines;
}

FrameLine last_line(const DemoState& state, unsigned width, FrameStyle style) {
  const std::string clock = decimal_text(state.elapsed_s, 0) + " s of " + decimal_text(state.total_s, 0) + " s";
  FrameLine line(width, style);
  return line.add(" headgate demo   ", "1").add(clock).add("   Ctrl-C ends it", "90");
}

}  // namespace

std::string render_demo(const DemoState& state, FrameSize size, FrameStyle style) {
  const unsigned width = size.columns;
  std::vector<FrameLine> lines;
  const auto put = [&lines](std::vector<FrameLine> more) { std::ranges::move(more, std::back_inserter(lines)); };
  if (!state.node.now) {
    lines.push_back(FrameLine(width, style).add(" SIMULATED  ", "30;43").add(" headgated is starting ...", "1"));
    return frame_text(lines);
  }
  const auto tenants = static_cast<unsigned>(state.lines.size());
  // Header, two GPU lines, both tables with headings, the last line. Events get the rest, then blank lines between
  // parts.
  const unsigned fixed = 1 + 2 + (1 + tenants) + (1 + tenants) + 1;
  const unsigned room = size.rows > fixed ? size.rows - fixed : 0;
  const unsigned blanks = room >= 5 ? 3 : 0;
  const auto blank = [&] {
    if (blanks > 0) lines.emplace_back(width, style);
  };
  lines.push_back(header_line(state.node, width, style));
  put(gpu_lines(state.node, width, 2, style));
  blank();
  put(table_lines(state.node, width, 1 + tenants, style));
  blank();
  put(story_lines(state, width, style));
  blank();
  const unsigned events = room > blanks ? std::min(room - blanks, 12u) : 0;
  if (events > 0) put(event_lines(state.node, width, events, events, style));
  while (lines.size() + 1 < size.rows) lines.emplace_back(width, style);
  lines.erase(lines.begin() + std::min<std::ptrdiff_t>(std::ssize(lines), static_cast<std::ptrdiff_t>(size.rows) - 1),
              lines.end());
  lines.push_back(last_line(state, width, style));
  return frame_text(lines);
}

std::string render_verdicts(const std::vector<DemoVerdict>& verdicts, double measured_s) {
  std::string text = "SIMULATED: what the simulated GPU saw over " + decimal_text(measured_s, 1) + " s\n";
  const auto line = [&text](const std::string& tenant, const std::string& promised, const std::string& measured,
                            const std::string& kept) {
    text += fitted(tenant, 10) + "  " + fitted(promised, 19) + "  " + fitted(measured, 41) + "  " + kept + "\n";
  };
  line("TENANT", "PROMISED", "MEASURED", "KEPT");
  for (const DemoVerdict& verdict : verdicts)
    line(verdict.tenant, verdict.promised, verdict.measured, verdict.kept ? "yes" : "NO");
  return text + (std::ranges::all_of(verdicts, &DemoVerdict::kept)
                     ? "Every promise was kept: compute within 1 point, memory to the byte.\n"
                     : "A promise was not kept (compute may be 1 point off, memory no byte).\n");
}

}  // namespace headgate::demo
