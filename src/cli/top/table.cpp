#include <algorithm>
#include <cmath>
#include <ranges>
#include <span>

#include "base/units.hpp"
#include "cli/term/output.hpp"
#include "cli/top/picture.hpp"
#include "cli/view/names.hpp"

namespace headgate::cli {
namespace {

using CellText = std::string (*)(const TopRow& row, unsigned width);

std::string owner_of_row(const TopRow& row, unsigned) { return or_dash(row.owner); }
std::string gpu_of_row(const TopRow& row, unsigned) { return or_dash(row.gpu); }
std::string pid_of_row(const TopRow& row, unsigned) { return std::to_string(row.pid); }
std::string share_of_row(const TopRow& row, unsigned width) { return cut_inside(or_dash(row.share), width); }
std::string memory_of_row(const TopRow& row, unsigned) {
  return row.pid != 0 ? short_bytes_text(row.used_bytes) : used_of_text(row.used_bytes, row.limit_bytes);
}
std::string compute_of_row(const TopRow& row, unsigned) { return ratio_text(row.held_ratio); }
std::string allowance_of_row(const TopRow& row, unsigned) {
  return row.share.empty() || row.pid != 0 ? "" : allowance_text(row.guarantee_ratio, row.ceiling_ratio);
}
std::string waits_of_row(const TopRow& row, unsigned) { return row.pid != 0 ? "" : ratio_text(row.waited_ratio); }
std::string refusals_of_row(const TopRow& row, unsigned) {
  return row.refusals == 0 ? "-" : std::to_string(row.refusals);
}
std::string processes_of_row(const TopRow& row, unsigned) { return std::to_string(row.processes); }
std::string where_of_row(const TopRow& row, unsigned) { return or_dash(row.where); }
std::string level_of_row(const TopRow& row, unsigned) { return or_dash(row.level); }
std::string state_of_row(const TopRow& row, unsigned width) {
  // The tree's column is too narrow for the full text.
  return row.state == kFrozenShortState && width < row.state.size() ? "audit froze"
                                                                    : format_state(row.state, row.idle_ns);
}

constexpr unsigned kWideBar = 130;  // columns of a terminal with a long bar of memory

enum class Graph { none, memory_bar, compute_bar, history };

// `from`: the narrowest terminal that shows the column. It has a text or a graph.
struct Column {
  CellText text;
  const char* heading;
  unsigned width;
  bool right;
  unsigned from;
  TopSort sort;
  Graph graph = Graph::none;
};

constexpr Column kShareColumns[] = {
    {owner_of_row, "OWNER", 7, false, 76, TopSort::owner},
    {gpu_of_row, "GPU", 3, true, 0, TopSort::gpu},
    {memory_of_row, "MEMORY", 11, true, 0, TopSort::memory},
    {nullptr, "", 6, false, 76, TopSort::memory, Graph::memory_bar},
    {compute_of_row, "TIME", 4, true, 0, TopSort::compute},
    {allowance_of_row, "OF", 6, false, 66, TopSort::compute},
    {nullptr, "", 10, false, 100, TopSort::compute, Graph::compute_bar},
    {nullptr, "LATELY", 12, false, 120, TopSort::compute, Graph::history},
    {waits_of_row, "WAITS", 5, true, 0, TopSort::waited},
    {refusals_of_row, "REF", 4, true, 0, TopSort::refusals},
    {processes_of_row, "PROC", 4, true, 110, TopSort::name},
    {where_of_row, "WHERE", 16, false, 150, TopSort::owner},
    {level_of_row, "LEVEL", 14, false, 140, TopSort::state},
    {state_of_row, "STATE", 11, false, 0, TopSort::state},
};
constexpr Column kProcessColumns[] = {
    {pid_of_row, "PID", 7, true, 0, TopSort::name},           {share_of_row, "SHARE", 14, false, 0, TopSort::owner},
    {owner_of_row, "USER", 8, false, 76, TopSort::owner},     {gpu_of_row, "GPU", 4, true, 0, TopSort::gpu},
    {memory_of_row, "MEMORY", 8, true, 0, TopSort::memory},   {compute_of_row, "BUSY", 4, true, 66, TopSort::compute},
    {where_of_row, "WHERE", 20, false, 110, TopSort::owner},  {level_of_row, "LEVEL", 14, false, 90, TopSort::state},
    {state_of_row, "FINDING", 16, false, 76, TopSort::state},
};

std::vector<Column> columns_of(TopView view, unsigned width) {
  const std::span<const Column> all =
      view == TopView::process ? std::span<const Column>(kProcessColumns) : std::span<const Column>(kShareColumns);
  std::vector<Column> columns;
  for (const Column& column : all) {
    const bool told_by_name = column.text == owner_of_row && (view == TopView::gpu || view == TopView::user);
    if (column.from <= width && !told_by_name) columns.push_back(column);
    if (column.graph == Graph::memory_bar && width >= kWideBar) columns.back().width = 13;
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
  for (const double mark : marks)
    if (mark > 0 && mark < 1) cells[std::max(cell(mark), 1u) - 1].glyph = style.ascii ? "|" : "\u2502";
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
  return column.text == nullptr ? "" : column.text(row, column.width);
}

void draw_cell(FrameLine& line, const TopState& state, const TopRow& row, const Column& column, FrameStyle style) {
  const std::string look = share_look(row.colour);
  const unsigned end = line.taken() + column.width;
  switch (column.graph) {
    case Graph::memory_bar:
      if (row.limit_bytes && row.pid == 0)
        draw_bar(line, memory_ratio(row), {}, column.width, memory_ratio(row) >= 0.95 ? "31" : look, style);
      break;
    case Graph::compute_bar:
      if (row.held_ratio && row.pid == 0)
        draw_bar(line, *row.held_ratio, {row.guarantee_ratio, row.ceiling_ratio}, column.width, look, style);
      break;
    case Graph::history: line.add(sparkline(history_of(state, row), column.width, style), look); break;
    case Graph::none: {
      const std::string text = text_of(row, column);
      const std::string how = column.text == state_of_row                          ? state_look(row)
                              : column.text == refusals_of_row && row.refusals > 0 ? "31"
                                                                                   : "";
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
    if (!column.right && column.text != nullptr && need < column.width && names > room)
      column.width -= std::min(column.width - need, names - room);
  }
  Column& last = columns.back();
  const unsigned room = name_width(columns, width), need = needed(last);
  if (need > last.width && room > names) last.width += std::min(need - last.width, room - names);
}

}  // namespace

const char* view_heading(TopView view) {
  constexpr const char* kHeadings[] = {"SHARE", "GPU", "USER", "COMMAND"};
  return kHeadings[static_cast<std::size_t>(view)];
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
