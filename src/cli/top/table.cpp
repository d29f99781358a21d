#include <algorithm>
#include <cmath>
#include <ranges>

#include "base/units.hpp"
#include "cli/term/output.hpp"
#include "cli/term/text_width.hpp"
#include "cli/top/parts.hpp"
#include "cli/view/names.hpp"

namespace headgate::cli {
namespace {

enum class What {
  owner,
  gpu,
  pid,
  share,
  memory,
  memory_bar,
  compute,
  allowance,
  compute_bar,
  history,
  waited,
  refusals,
  idle,
  processes,
  where,
  level,
  state
};

// `from`: the narrowest terminal that shows the column.
struct Column {
  What what;
  const char* heading;
  unsigned width;
  bool right;
  unsigned from;
  TopSort sort;
};

constexpr Column kShareColumns[] = {
    {What::owner, "OWNER", 7, false, 76, TopSort::owner},
    {What::gpu, "GPU", 3, true, 0, TopSort::gpu},
    {What::memory, "MEMORY", 11, true, 0, TopSort::memory},
    {What::memory_bar, "", 6, false, 76, TopSort::memory},
    {What::memory_bar, "", 6, false, 130, TopSort::memory},
    {What::compute, "TIME", 4, true, 0, TopSort::compute},
    {What::allowance, "OF", 6, false, 66, TopSort::compute},
    {What::compute_bar, "", 10, false, 100, TopSort::compute},
    {What::history, "LATELY", 12, false, 120, TopSort::compute},
    {What::waited, "WAITS", 5, true, 0, TopSort::waited},
    {What::refusals, "REF", 4, true, 0, TopSort::refusals},
    {What::processes, "PROC", 4, true, 110, TopSort::name},
    {What::where, "WHERE", 16, false, 150, TopSort::owner},
    {What::level, "LEVEL", 14, false, 140, TopSort::state},
    {What::state, "STATE", 11, false, 0, TopSort::state},
};
constexpr unsigned kShareCells = 14;
constexpr Column kProcessColumns[] = {
    {What::pid, "PID", 7, true, 0, TopSort::name},
    {What::share, "SHARE", kShareCells, false, 0, TopSort::owner},
    {What::owner, "USER", 8, false, 76, TopSort::owner},
    {What::gpu, "GPU", 4, true, 0, TopSort::gpu},
    {What::memory, "MEMORY", 8, true, 0, TopSort::memory},
    {What::compute, "BUSY", 4, true, 66, TopSort::compute},
    {What::where, "WHERE", 20, false, 110, TopSort::owner},
    {What::level, "LEVEL", 14, false, 90, TopSort::state},
    {What::state, "FINDING", 16, false, 76, TopSort::state},
};

std::vector<Column> columns_of(TopView view, unsigned width) {
  std::vector<Column> columns;
  const auto take = [&](const auto& table) {
    for (const Column& column : table) {
      const bool told_by_name = column.what == What::owner && (view == TopView::gpu || view == TopView::user);
      if (column.from <= width && !told_by_name) columns.push_back(column);
    }
  };
  if (view == TopView::process) take(kProcessColumns);
  else take(kShareColumns);
  // A wider bar replaces the narrow one.
  const auto bars = std::ranges::count(columns, What::memory_bar, &Column::what);
  if (bars == 2) {
    columns.erase(std::ranges::find(columns, What::memory_bar, &Column::what));
    std::ranges::find(columns, What::memory_bar, &Column::what)->width = 13;
  }
  return columns;
}

unsigned name_width(const std::vector<Column>& columns, unsigned width) {
  unsigned others = 1;
  for (const Column& column : columns) others += column.width + 1;
  return width > others ? width - others : 1;
}

// Fills the bar up to `full` and draws a '|' at each mark.
void draw_bar(FrameLine& line, double full, std::initializer_list<double> marks, unsigned width,
              const std::string& look, FrameStyle style) {
  const auto cell = [width](double ratio) {
    return static_cast<unsigned>(std::lround(std::clamp(ratio, 0.0, 1.0) * width));
  };
  std::vector<BarCell> cells(width, {style.ascii ? "." : "\u00b7", "90"});
  for (unsigned i = 0; i < cell(full); ++i) cells[i] = {style.ascii ? "#" : "\u2588", look};
  for (const double mark : marks) {
    if (mark > 0 && mark < 1) cells[std::max(cell(mark), 1u) - 1].glyph = style.ascii ? "|" : "\u2502";
  }
  add_cells(line, cells);
}

std::string state_look(const TopRow& row) {
  const std::string& state = row.state;
  if (state == "throttled" || state == "draining" || state.starts_with("paused")) return "33";
  if (state == "full" || state == "refused" || state == "broken" || state == "no share" || state == "bypassed" ||
      state == "starved" || state == kFrozenShortState)
    return "31";
  if (state == "idle" || state == "empty" || state == "freeing" || state == "frozen") return "90";
  return state == "ok" || state == "takes turns" ? "32" : "";
}

double memory_ratio(const TopRow& row) {
  const auto limit = row.limit_bytes.value_or(0);
  return limit == 0 ? 0 : static_cast<double>(row.used_bytes) / static_cast<double>(limit);
}

const std::vector<double>& history_of(const TopState& state, const TopRow& row) {
  static const std::vector<double> kNone;
  const auto found = state.held.find(row.share.empty() ? row.uuid : history_key(row.share, row.uuid));
  return found == state.held.end() || row.pid != 0 ? kNone : found->second;
}

std::string text_of(const TopRow& row, const Column& column) {
  switch (column.what) {
    case What::owner: return row.owner.empty() ? "-" : row.owner;
    case What::gpu: return row.gpu.empty() ? "-" : row.gpu;
    case What::pid: return std::to_string(row.pid);
    case What::share: return row.share.empty() ? "-" : cut_inside(row.share, kShareCells);
    case What::memory:
      return row.pid != 0 ? short_bytes_text(row.used_bytes) : used_of_text(row.used_bytes, row.limit_bytes);
    case What::compute: return ratio_text(row.held_ratio);
    case What::allowance:
      return row.share.empty() || row.pid != 0 ? "" : allowance_text(row.guarantee_ratio, row.ceiling_ratio);
    case What::waited: return row.pid != 0 ? "" : ratio_text(row.waited_ratio);
    case What::refusals: return row.refusals == 0 ? "-" : std::to_string(row.refusals);
    case What::idle: return row.idle_ns == 0 ? "-" : short_duration_text(row.idle_ns);
    case What::processes: return std::to_string(row.processes);
    case What::where: return row.where.empty() ? "-" : row.where;
    case What::level: return row.level.empty() ? "-" : row.level;
    case What::state:
      // The tree's column is too narrow for the full text.
      if (row.state == kFrozenShortState && column.width < row.state.size()) return "audit froze";
      return format_state(row.state, row.idle_ns);
    case What::memory_bar:
    case What::compute_bar:
    case What::history: break;
  }
  return "";
}

void draw_cell(FrameLine& line, const TopState& state, const TopRow& row, const Column& column, FrameStyle style) {
  const std::string look = share_look(row.colour);
  const unsigned end = line.taken() + column.width;
  switch (column.what) {
    case What::memory_bar:
      if (row.limit_bytes && row.pid == 0)
        draw_bar(line, memory_ratio(row), {}, column.width, memory_ratio(row) >= 0.95 ? "31" : look, style);
      break;
    case What::compute_bar:
      if (row.held_ratio && row.pid == 0)
        draw_bar(line, *row.held_ratio, {row.guarantee_ratio, row.ceiling_ratio}, column.width, look, style);
      break;
    case What::history: line.add(sparkline(history_of(state, row), column.width, style), look); break;
    default: {
      const std::string text = text_of(row, column);
      std::string how = column.what == What::state ? state_look(row) : "";
      if (column.what == What::refusals && row.refusals > 0) how = "31";
      line.add(column.right ? fitted_right(text, column.width) : fitted(text, column.width), how);
    }
  }
  line.pad_to(end);
}

FrameLine heading(const TopState& state, const std::vector<Column>& columns, unsigned width, FrameStyle style) {
  FrameLine line(width, style);
  const auto head = [&](const std::string& text, unsigned cells, bool right, bool sorted) {
    line.add(right ? fitted_right(text, cells) : fitted(text, cells), sorted ? "1;4" : "1");
  };
  line.add(" ");
  head(view_heading(state.view), name_width(columns, width), false, state.sort == TopSort::name);
  for (const Column& column : columns) {
    line.add(" ");
    head(column.heading, column.width, column.right, *column.heading != '\0' && column.sort == state.sort);
  }
  return line;
}

// "python"; in a tree with its branch, and with a process's PID.
std::string name_text(const TopState& state, const TopRow& row, FrameStyle style) {
  const std::string branch = row.depth == 0 ? "" : style.ascii ? " `-" : " \u2514 ";
  return branch + ((row.process && state.tagged.contains(row.host_pid)) ? "*" : "") +
         (row.depth > 0 && row.pid != 0 ? std::to_string(row.pid) + " " : "") + row.name;
}

FrameLine row_line(const TopState& state, const TopRow& row, bool selected, const std::vector<Column>& columns,
                   unsigned width, FrameStyle style) {
  FrameLine line(width, style);
  line.add(selected ? ">" : " ", "1");
  const std::string name = name_text(state, row, style);
  const unsigned room = name_width(columns, width);
  line.add(fitted(row.pid != 0 ? name : cut_inside(harmless(name), room), room),
           selected ? "1;7" : share_look(row.colour));
  for (const Column& column : columns) {
    line.add(" ");
    draw_cell(line, state, row, column, style);
  }
  return line;
}

// Columns of text give what they do not need to names that would be cut; what is then free goes to the last column.
void share_room(const TopState& state, const std::vector<TopRow>& rows, std::vector<Column>& columns, unsigned width) {
  unsigned names = 0;
  for (const TopRow& row : rows) names = std::max(names, cells(name_text(state, row, {})));
  const auto needed = [&](const Column& column) {
    unsigned most = cells(column.heading);
    for (const TopRow& row : rows) most = std::max(most, cells(text_of(row, column)));
    return most;
  };
  for (Column& column : columns | std::views::reverse) {
    const unsigned room = name_width(columns, width), need = needed(column);
    const bool is_bar = column.what == What::memory_bar || column.what == What::compute_bar;
    if (!column.right && !is_bar && column.what != What::history && need < column.width && names > room)
      column.width -= std::min(column.width - need, names - room);
  }
  Column& last = columns.back();
  const unsigned room = name_width(columns, width), need = needed(last);
  if (need > last.width && room > names) last.width += std::min(need - last.width, room - names);
}

}  // namespace

const char* view_heading(TopView view) {
  switch (view) {
    case TopView::share: return "SHARE";
    case TopView::gpu: return "GPU";
    case TopView::user: return "USER";
    case TopView::process: return "COMMAND";
  }
  return "SHARE";
}

std::vector<FrameLine> table_lines(const TopState& state, unsigned width, unsigned most, FrameStyle style) {
  auto columns = columns_of(state.view, width);
  const auto rows = rows_of(state);
  share_room(state, rows, columns, width);
  const std::size_t selected = selected_row(rows, state);
  std::vector<FrameLine> lines = {heading(state, columns, width, style)};
  if (rows.empty()) {
    const bool chosen = !state.filter.empty() || !state.user.empty();
    lines.push_back(FrameLine(width, style)
                        .add(chosen ? " nothing here matches (Esc shows all)"
                                    : " no shares: headgate run --mem 8GiB -- COMMAND makes one"));
    return lines;
  }
  const std::size_t room = most > 1 ? most - 1 : 1;
  std::size_t first = 0;
  if (rows.size() > room) first = std::min(selected > room / 2 ? selected - room / 2 : 0, rows.size() - room);
  for (std::size_t i = first; i < std::min(first + room, rows.size()); ++i)
    lines.push_back(row_line(state, rows[i], i == selected, columns, width, style));
  return lines;
}

}  // namespace headgate::cli
