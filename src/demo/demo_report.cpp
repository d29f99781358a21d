#include "demo/demo_report.hpp"

#include <algorithm>
#include <cmath>

#include "base/units.hpp"
#include "cli/term/frame.hpp"
#include "cli/top/picture.hpp"
#include "cli/view/names.hpp"
#include "demo/tenants.hpp"

namespace headgate::demo {

using namespace cli;  // terminal, views, daemon client
namespace {

std::string seconds(double s) { return decimal_text(s, 1) + " s"; }
std::string percent(double value) { return decimal_text(value, 2) + " %"; }
std::string whole_percent(double value) { return decimal_text(value, 0) + " %"; }
std::string milliseconds_text(double ms) { return decimal_text(ms, 1) + " ms"; }

const snapshot::ShareDevice* device_of(const snapshot::Snapshot& snapshot, const std::string& share) {
  const auto* found = find_share(snapshot, share);
  return found == nullptr || found->devices.empty() ? nullptr : &found->devices.front();
}

std::string refused(const snapshot::ShareDevice& device) {
  const auto& last = device.last_refusal;
  return "refused " + (last ? bytes_text(last->asked_bytes) + " at " + bytes_text(last->used_bytes) : "memory");
}

}  // namespace

std::string demo_story(const DemoTenant& tenant, const DemoProgress& progress, const snapshot::Snapshot& snapshot) {
  if (!progress.started) return "comes at " + std::to_string(static_cast<int>(std::lround(tenant.starts_at_s))) + " s";
  const snapshot::ShareDevice* device = device_of(snapshot, tenant.name);
  if (device == nullptr) return "";
  const std::string used = bytes_text(device->memory_used_bytes);
  switch (tenant.role) {
    case DemoRole::trainer:
      return "held to " + std::to_string(tenant.ceiling_percent) + "% of the GPU: has " +
             ratio_text(device->held_ratio);
    case DemoRole::server:
      // It has less than promised because it asks for less, so its demand is shown too.
      return "wants " + std::to_string(kDemoServerWantsPercent) + "%, has " + ratio_text(device->held_ratio) + "; " +
             std::to_string(tenant.compute_percent) + "% promised";
    case DemoRole::notebook: return progress.told_after_s ? "keeps its memory, reported idle" : "keeps its memory";
    case DemoRole::leaker:
      return device->refusals > 0 ? refused(*device) + ", told"
                                  : "has " + used + " of " + bytes_text(tenant.limit_bytes);
    case DemoRole::over_asker: return device->refusals > 0 ? refused(*device) + ", told" : "";
    case DemoRole::bypasser:
      return progress.told_after_s ? "in no share: named after " + seconds(*progress.told_after_s)
             : progress.ended      ? "was not named"
                                   : "the audit finds what is in no share";
  }
  return "";
}

DemoVerdict demo_verdict(const DemoMeasured& m) {
  DemoVerdict verdict{.tenant = m.name};
  const std::string limit = bytes_text(m.limit_bytes);
  const bool memory = m.peak_bytes == m.takes_bytes && m.peak_bytes <= m.limit_bytes;
  switch (m.role) {
    case DemoRole::trainer:
      verdict.promised = whole_percent(m.promised_percent) + ", " + limit;
      verdict.measured = percent(m.held_percent) + ", " + bytes_text(m.peak_bytes) + " at most";
      verdict.kept = memory && std::abs(m.held_percent - m.promised_percent) <= kDemoPoints;
      break;
    case DemoRole::server:
      verdict.promised = "never over " + whole_percent(m.ceiling_percent);
      verdict.measured = percent(m.held_percent) + ", requests p50 " + milliseconds_text(m.request_p50_ms) + " p99 " +
                         milliseconds_text(m.request_p99_ms);
      verdict.kept = memory && m.held_percent > 0 && m.held_percent <= m.ceiling_percent + kDemoPoints;
      break;
    case DemoRole::notebook:
      verdict.promised = limit + ", told idle";
      verdict.measured = "kept " + bytes_text(m.peak_bytes) + ", " +
                         (m.told_after_s ? "told after " + seconds(*m.told_after_s) : "never told");
      verdict.kept = memory && m.told_after_s.has_value();
      break;
    case DemoRole::leaker:
      verdict.promised = "never over " + limit;
      verdict.measured = m.grow_refused ? "refused at " + bytes_text(m.peak_bytes) : "not refused";
      verdict.kept = m.grow_refused && m.refusals > 0 && m.grown_bytes > 0 && m.peak_bytes <= m.limit_bytes &&
                     m.peak_bytes == m.takes_bytes + m.grown_bytes;
      break;
    case DemoRole::over_asker:
      verdict.promised = "never over " + limit;
      verdict.measured = bytes_text(m.asked_bytes) + " refused, " + bytes_text(m.given_bytes) + " of it given";
      verdict.kept = memory && m.given_bytes == 0 && m.refusals > 0;
      break;
    case DemoRole::bypasser:
      verdict.promised = "named by the audit";
      verdict.measured = m.told_after_s
                             ? "named after " + seconds(*m.told_after_s) + ", holds " + bytes_text(m.peak_bytes)
                             : "never named";
      verdict.kept = m.told_after_s.has_value();
      break;
  }
  if (!memory && m.role != DemoRole::leaker && m.role != DemoRole::bypasser)
    verdict.measured += "; held " + bytes_text(m.peak_bytes) + ", took " + bytes_text(m.takes_bytes);
  return verdict;
}

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
