#include "cli/top/picture.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/saturating_math.hpp"
#include "base/units.hpp"
#include "cli/view/names.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {
namespace {

using snapshot::Snapshot;

// A word of the header; if space is short, words with a higher rank are dropped first.
struct Word {
  std::string text;
  const char* look;
  int rank;
};

// Empty while the limiter holds every share: a level is named only where it is weaker.
std::string format_weak_level(const TopState& state) {
  const std::string& level = state.now->node.level;
  return is_weak(level) ? "level " + level : "";
}

std::string power_of(const Snapshot& picture) {
  std::uint64_t now = 0, limit = 0;
  for (const auto& gpu : picture.gpus) {
    now += gpu.power_mw.value_or(0);
    limit += gpu.power_limit_mw.value_or(0);
  }
  if (now == 0) return "";
  return std::to_string(now / 1000) + (limit == 0 ? " W" : "/" + std::to_string(limit / 1000) + " W");
}

std::string committed_of(const Snapshot& picture) {
  std::uint64_t committed = 0, total = 0;
  for (const auto& gpu : picture.gpus) {
    committed += gpu.memory_committed_bytes;
    total += gpu.memory_total_bytes;
  }
  return total == 0 ? "" : "commit " + ratio_text(static_cast<double>(committed) / static_cast<double>(total));
}

// "3 refused, 2 idle, 1 outside, 1 in line": states that need attention; refusals counted as in the table.
std::string alarms_of(const Snapshot& picture) {
  std::vector<std::string> words;
  const auto count = [&](auto&& test, const char* word) {
    if (const auto number = std::ranges::count_if(picture.shares, test); number > 0)
      words.push_back(std::to_string(number) + " " + word);
  };
  std::uint64_t refusals = 0;
  for (const auto& share : picture.shares)
    for (const auto& device : share.devices) refusals = saturating_add(refusals, device.refusals);
  if (refusals > 0) words.push_back(std::to_string(refusals) + " refused");
  count([](const auto& s) { return s.state == "broken"; }, "broken");
  count([](const auto& s) { return s.state == "idle"; }, "idle");
  if (picture.node.unattended_processes > 0)
    words.push_back(std::to_string(picture.node.unattended_processes) + " outside");
  if (!picture.waiting.empty()) words.push_back(std::to_string(picture.waiting.size()) + " in line");
  return joined(words, ", ");
}

std::string interval_text(std::uint64_t ms) {
  return ms < 1000 ? std::to_string(ms) + "ms" : std::to_string(ms / 1000) + (ms % 1000 == 500 ? ".5s" : "s");
}

struct Told {
  const snapshot::Event* event;
  unsigned times;
};

// Returns the newest events; consecutive events of one kind and share are merged.
std::vector<Told> told_of(const std::vector<snapshot::Event>& events, unsigned most) {
  std::vector<Told> told;
  for (const auto& event : events) {
    const bool again = !told.empty() && told.back().event->kind == event.kind &&
                       told.back().event->share == event.share && !event.share.empty();
    if (again) told.back() = {&event, told.back().times + 1};
    else told.push_back({&event, 1});
  }
  if (told.size() > most) told.erase(told.begin(), told.end() - most);
  return told;
}

const char* severity_look(const snapshot::Event& event) {
  return event.severity == "error" ? "31" : event.severity == "warn" ? "33" : "";
}

FrameLine keys_line(const TopState& state, unsigned width, FrameStyle style) {
  FrameLine line(width, style);
  const auto prompt = [&](const std::string& what, const char* help) {
    line.add(" " + what, "1").add(state.typed).add("_", "5");
    if (line.left() > cells(help) + 3) line.add("   ").add(help, "90");
  };
  if (state.mode == TopMode::filter) {
    prompt("filter: ", "Enter keeps it, Esc shows all");
    return line;
  }
  if (state.mode == TopMode::limits) {
    prompt("new limits for " + state.limits_for + ": ", "mem=12GiB compute=50%  Enter, Esc");
    return line;
  }
  if (state.mode == TopMode::signal) {
    const auto& targets = state.signal_for.to;
    std::string whom;
    for (std::size_t i = 0; i < std::min<std::size_t>(targets.size(), 3); ++i)
      whom +=
          (i == 0 ? "" : ", ") + targets[i].command + " " + std::to_string(targets[i].pid) + " of " + targets[i].user;
    if (targets.size() > 3) whom += " and " + std::to_string(targets.size() - 3) + " more";
    prompt("signal for " + whom + " (TERM): ", "KILL STOP CONT ...  Enter, Esc");
    return line;
  }
  std::vector<std::pair<std::string, std::string>> keys = {{"?", "help"}, {"Enter", "details"}};
  if (state.daemon && !state.readonly) keys.emplace_back("e", "limits");
  if (!state.readonly) keys.emplace_back("k", "signal");
  for (const auto& key : std::initializer_list<std::pair<std::string, std::string>>{
           {"q", "quit"},
           {"/", "filter"},
           {"s", "by " + view_word(state.view)},
           {"< >", sort_word(state.sort) + (state.reverse ? " reversed" : "")},
           {"u", "user"},
           {"t", "tree"},
           {"z", "hold"},
           {"+ -", "interval"}})
    keys.push_back(key);
  if (!state.filter.empty()) keys.insert(keys.begin(), {"Esc", "ends filter '" + state.filter + "'"});
  if (!state.user.empty()) keys.insert(keys.begin(), {"Esc", "ends user " + state.user});
  for (const auto& [key, does] : keys) {
    if (line.left() < cells(key) + cells(does) + 3) break;
    line.add(" ").add(key, "1").add(" " + does, "90").add(" ");
  }
  return line;
}

// The key hints, or the reply to the last key in full: a refusal needs its values and its hint.
std::vector<FrameLine> foot_lines(const TopState& state, FrameSize size, FrameStyle style) {
  const bool asks = state.mode == TopMode::filter || state.mode == TopMode::limits || state.mode == TopMode::signal;
  if (asks || state.said.empty()) return {keys_line(state, size.columns, style)};
  std::vector<FrameLine> lines;
  for (const auto& line : wrapped(harmless(state.said), std::max(size.columns, 2u) - 1))
    lines.push_back(FrameLine(size.columns, style).add(" " + line, "33"));
  lines.resize(std::min<std::size_t>(lines.size(), std::max(size.rows / 3, 1u)), FrameLine(size.columns, style));
  return lines;
}

// The message for a terminal that is too small, wrapped.
std::vector<FrameLine> too_small(const TopState& state, FrameSize size, FrameStyle style) {
  const bool simulated = state.now && state.now->node.simulated;
  const std::string level = state.now ? format_weak_level(state) : "";
  const std::string text = std::string(simulated ? "SIMULATED " : "") + level + (level.empty() ? "" : ". ") +
                           "headgate top needs " + std::to_string(kSmallestTop.columns) + " columns and " +
                           std::to_string(kSmallestTop.rows) + " rows; this terminal has " +
                           std::to_string(size.columns) + " and " + std::to_string(size.rows) + ". q quits.";
  std::vector<FrameLine> lines;
  for (const auto& line : wrapped(text, size.columns)) lines.push_back(FrameLine(size.columns, style).add(line));
  lines.resize(std::min<std::size_t>(lines.size(), size.rows), FrameLine(size.columns, style));
  return lines;
}

struct Budget {
  unsigned gpus, table, events;
  bool airy;  // blank lines between parts
};

Budget budget_of(const TopState& state, unsigned rows) {
  constexpr unsigned kHeader = 1, kKeys = 1, kMinTable = 4;
  Budget budget{.gpus = 0,
                .table = 0,
                .events = rows >= 40   ? 6u
                          : rows >= 30 ? 4u
                          : rows >= 20 ? 2u
                                       : 1u,
                .airy = rows >= 22};
  if (state.preset == TopPreset::table) budget.events = 0;
  if (state.preset == TopPreset::gpus) budget.events = std::max(budget.events, rows / 3);
  const unsigned around = kHeader + kKeys + budget.events + (budget.airy ? 2 : 0) + (state.trouble.empty() ? 0 : 1);
  const auto gpus = static_cast<unsigned>(std::min<std::size_t>(state.now->gpus.size(), 1000));
  const unsigned room = rows > around + kMinTable ? rows - around - kMinTable : 1;
  // GPUs get at most half of the space, so that the table stays larger; up to two thirds if that shows all of them.
  const unsigned half = gpus <= room * 2 / 3 ? std::max(gpus, room / 2) : room / 2;
  const unsigned part = state.preset == TopPreset::gpus ? room : std::min(room, std::max(2u, half));
  const unsigned most = state.preset == TopPreset::table ? 0 : std::max(gpus == 0 ? 0u : 1u, part);
  budget.gpus = gpus * 2 <= most ? gpus * 2 : std::min(gpus, most);
  budget.table = rows - std::min(rows, around + budget.gpus);
  return budget;
}

std::vector<FrameLine> all_lines(const TopState& state, FrameSize size, FrameStyle style) {
  const unsigned width = size.columns;
  std::vector<FrameLine> lines;
  const auto put = [&lines](std::vector<FrameLine> more) {
    for (auto& line : more) lines.push_back(std::move(line));
  };
  const auto blank = [&] { lines.emplace_back(width, style); };
  if (!state.now) {
    lines.push_back(FrameLine(width, style).add(" headgate top: looking at the node ...", "1"));
    if (!state.trouble.empty()) lines.push_back(FrameLine(width, style).add(" " + state.trouble, "31"));
    return lines;
  }
  lines.push_back(header_line(state, width, style));
  if (!state.trouble.empty())
    lines.push_back(FrameLine(width, style).add(cut(" " + harmless(state.trouble), width), "31"));
  if (state.mode == TopMode::help) {
    auto page = help_lines(state, width, style);
    const std::size_t room = size.rows - std::min<std::size_t>(size.rows, lines.size() + 1);
    if (page.size() > room) {
      page.front().add("   arrows show the rest", "90");
      const auto above = std::min(static_cast<std::size_t>(state.help_from), page.size() - room);
      page.erase(page.begin(), page.begin() + static_cast<std::ptrdiff_t>(above));
    }
    put(std::move(page));
  } else {
    const Budget budget = budget_of(state, size.rows);
    if (budget.gpus > 0) put(gpu_lines(state, width, budget.gpus, style));
    if (budget.airy) blank();
    put(state.mode == TopMode::details ? details_lines(state, width, budget.table, style)
                                       : table_lines(state, width, budget.table, style));
    const auto taken = static_cast<unsigned>(lines.size()) + (budget.airy ? 2 : 1);
    const unsigned rows = size.rows - std::min(size.rows, taken);
    const auto events =
        budget.events == 0 ? std::vector<FrameLine>() : event_lines(state, width, budget.events, rows, style);
    while (lines.size() + events.size() + 1 < size.rows) blank();
    put(events);
  }
  while (lines.size() + 1 < size.rows) blank();
  auto foot = foot_lines(state, size, style);
  lines.resize(std::min<std::size_t>(lines.size(), size.rows - foot.size()), FrameLine(width, style));
  put(std::move(foot));
  return lines;
}

}  // namespace

FrameLine header_line(const TopState& state, unsigned width, FrameStyle style) {
  const Snapshot& picture = *state.now;
  std::vector<Word> words;
  const auto word = [&words](std::string text, const char* look, int rank) {
    if (!text.empty()) words.push_back({std::move(text), look, rank});
  };
  word(cut(picture.node.name.empty() ? "this node" : picture.node.name, 24), "1", 0);
  word(picture.node.simulated ? "SIMULATED" : "", "30;43", 0);
  word(staleness(picture), "30;43", 0);
  word(format_weak_level(state), "33", 0);
  word(state.daemon ? "" : "no daemon", "33", 2);
  word(picture.node.driver_version.empty() ? "" : "driver " + picture.node.driver_version, "", 6);
  word(committed_of(picture), "", 4);
  word(power_of(picture), "", 5);
  word(alarms_of(picture), "33", 3);
  const std::string clock =
      clock_text(picture.taken_unix_ns) + " [" + (state.paused ? "held" : interval_text(state.interval_ms)) + "]";
  const auto taken = [&words, &clock] {
    unsigned all = cells(clock) + 2;
    for (const Word& each : words) all += cells(each.text) + 2;
    return all;
  };
  while (taken() > width && std::ranges::max(words, {}, &Word::rank).rank > 0)
    words.erase(std::ranges::max_element(words, {}, &Word::rank));
  FrameLine line(width, style);
  for (const Word& each : words) line.add(line.taken() == 0 ? " " : "  ").add(each.text, each.look);
  if (line.left() > cells(clock)) line.pad_to(width - cells(clock) - 1).add(clock, state.paused ? "30;43" : "");
  return line;
}

std::vector<FrameLine> event_lines(const TopState& state, unsigned width, unsigned most, unsigned rows,
                                   FrameStyle style) {
  const auto told = told_of(state.events, most);
  if (told.empty()) return {FrameLine(width, style).add(" no events yet")};
  unsigned free = rows - std::min(rows, static_cast<unsigned>(told.size()));
  std::vector<FrameLine> lines;
  for (auto one = told.rbegin(); one != told.rend(); ++one) {
    const auto& [event, times] = *one;
    const std::string clock = " " + clock_text(event->unix_ns) + "  ", text = harmless(event->text);
    const std::string alike = times > 1 ? "  (" + std::to_string(times) + " alike)" : "";
    const unsigned room = width > cells(clock) ? width - cells(clock) : 0;
    auto parts = wrapped(text + alike, std::max(room, 1u));
    if (parts.size() - 1 > free || cells(text) + cells(alike) <= room)
      parts = {cut(text, room > cells(alike) ? room - cells(alike) : 0) + alike};
    free -= static_cast<unsigned>(parts.size() - 1);
    std::vector<FrameLine> of_event;
    for (const auto& part : parts)
      of_event.push_back(FrameLine(width, style)
                             .add(of_event.empty() ? clock : std::string(cells(clock), ' '))
                             .add(part, severity_look(*event)));
    lines.insert(lines.begin(), of_event.begin(), of_event.end());
  }
  return lines;
}

std::string render(const TopState& state, FrameSize size, FrameStyle style) {
  if (size.columns == 0 || size.rows == 0) return {};
  const bool small = size.columns < kSmallestTop.columns || size.rows < kSmallestTop.rows;
  auto lines = small ? too_small(state, size, style) : all_lines(state, size, style);
  lines.resize(std::min<std::size_t>(lines.size(), size.rows), FrameLine(size.columns, style));
  return frame_text(lines);
}

std::string top_text(const TopState& state, const Voice& voice) {
  const Snapshot& picture = *state.now;
  const std::uint32_t outside = picture.node.unattended_processes;
  const std::string level = format_weak_level(state);
  std::string text = "node " + harmless(picture.node.name) + (level.empty() ? "" : ", " + level) + ", " +
                     (state.daemon ? "daemon" : "no daemon") +
                     (outside > 0 ? ", " + std::to_string(outside) + " outside every share" : "") +
                     caveats(picture, voice) + "\n";
  if (!state.trouble.empty()) text += harmless(state.trouble) + "\n";
  std::vector<std::vector<std::string>> gpus = {
      {"GPU", "MODEL", "\tMEMORY", "\tCOMMITTED", "\tBUSY", "\tTEMPERATURE", "\tPOWER", "SLOWED BY"}};
  for (const auto& gpu : picture.gpus)
    gpus.push_back({std::to_string(gpu.index), short_model(gpu.model) + (gpu.mps_clients > 0 ? ", MPS" : ""),
                    "\t" + used_of_text(gpu.memory_used_bytes, gpu.memory_total_bytes),
                    "\t" + short_bytes_text(gpu.memory_committed_bytes), "\t" + ratio_text(gpu.busy_ratio),
                    "\t" + (gpu.temperature_celsius ? std::to_string(*gpu.temperature_celsius) + " C" : "-"),
                    "\t" + (gpu.power_mw ? power_text(gpu) : "-"),
                    gpu.throttle_reasons.empty() ? "-" : joined(gpu.throttle_reasons, ", ")});
  if (gpus.size() > 1) text += table(gpus, voice);
  const auto rows = rows_of(state);
  if (rows.empty()) return text + (state.view == TopView::process ? "no process uses a GPU\n" : "no shares\n");
  std::vector<std::vector<std::string>> shown = {{view_heading(state.view), "OWNER", "GPU", "\tMEMORY", "\tTIME",
                                                  "\tOF", "\tWAITS", "\tREFUSED", "\tIDLE", "LEVEL", "STATE"}};
  for (const TopRow& row : rows)
    shown.push_back(
        {row.pid != 0 ? row.name + " " + std::to_string(row.pid) : row.name, or_dash(row.owner), or_dash(row.gpu),
         "\t" + used_of_text(row.used_bytes, row.limit_bytes), "\t" + ratio_text(row.held_ratio),
         "\t" + (row.colour < 0 || row.pid != 0 ? "-" : allowance_text(row.guarantee_ratio, row.ceiling_ratio)),
         "\t" + ratio_text(row.waited_ratio), "\t" + std::to_string(row.refusals),
         "\t" + (row.idle_ns == 0 ? "-" : short_duration_text(row.idle_ns)), or_dash(row.level),
         row.state.empty() ? "-" : format_state(row.state, 0)});
  return text + table(shown, voice);
}

std::string top_json(const TopState& state) {
  return pretty_json({{"schema", "headgate.top/v1"},
                      {"simulated", state.now->node.simulated},
                      {"daemon", state.daemon},
                      {"snapshot", parse_json(snapshot::to_json(*state.now))}});
}

}  // namespace headgate::cli
