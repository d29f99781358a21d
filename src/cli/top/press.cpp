// Handles keys and new snapshots.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/split.hpp"
#include "cli/top/state.hpp"
#include "observe/pid_space.hpp"

namespace headgate::cli {
namespace {

constexpr int kPage = 10, kHelpPage = 5, kLongestHelp = 50;  // rows of a table; lines of the help
constexpr std::array<std::uint64_t, 8> kIntervals = {100, 250, 500, 1000, 2000, 5000, 10'000, 60'000};
constexpr int kSorts = static_cast<int>(TopSort::state) + 1;
constexpr std::size_t kLongestText = 120;  // bytes that can be typed

void remember(TopHistory& history, const std::string& key, double value) {
  auto& values = history[key];
  values.push_back(value);
  if (values.size() > kTopHistory) values.erase(values.begin());
}

void forget_gone(TopHistory& history, const std::vector<std::string>& known) {
  std::erase_if(history, [&known](const auto& entry) { return std::ranges::find(known, entry.first) == known.end(); });
}

void move_to(TopState& state, std::ptrdiff_t step) {
  const auto rows = rows_of(state);
  if (rows.empty()) return;
  const auto last = static_cast<std::ptrdiff_t>(rows.size()) - 1;
  const auto at = std::clamp(static_cast<std::ptrdiff_t>(selected_row(rows, state)) + step, std::ptrdiff_t{0}, last);
  state.selected = rows[static_cast<std::size_t>(at)].key;
}

void next_user(TopState& state) {
  if (!state.now) return;
  const auto users = users_of(*state.now);
  const auto found = std::ranges::find(users, state.user);
  if (state.user.empty()) state.user = users.empty() ? "" : users.front();
  else state.user = found == users.end() || found + 1 == users.end() ? "" : *(found + 1);
}

void change_interval(TopState& state, bool longer) {
  const auto* const next = longer ? std::ranges::upper_bound(kIntervals, state.interval_ms)
                                  : std::ranges::lower_bound(kIntervals, state.interval_ms);
  if (longer && next != kIntervals.end()) state.interval_ms = *next;
  if (!longer && next != kIntervals.begin()) state.interval_ms = *(next - 1);
}

void choose_view(TopState& state, TopView view) {
  state.view = view;
  state.mode = TopMode::table;
  state.selected.clear();
}

constexpr const char* kUnknownPid = "its number on this machine is not known, or only its share's page tells it";
constexpr const char* kGone = "the row that was chosen is gone; choose another";

// Returns the selected row; nothing if it is gone, so that no other row takes its place.
std::optional<TopRow> chosen_row(const TopState& state) {
  auto rows = rows_of(state);
  const std::size_t at = selected_row(rows, state);
  if (rows.empty() || (!state.selected.empty() && rows[at].key != state.selected)) return std::nullopt;
  return std::move(rows[at]);
}

void begin_limits(TopState& state) {
  const auto row = chosen_row(state);
  const std::string share = row ? row->share : "";
  if (state.readonly) state.said = "this is --readonly: nothing is changed from here";
  else if (!state.daemon) state.said = "limits are changed by the daemon, and none answers here";
  else if (!row) state.said = kGone;
  else if (share.empty()) state.said = "choose a share first";
  else {
    state.mode = TopMode::limits;
    state.typed.clear();
    state.limits_for = share;
  }
}

// Parses "mem=12GiB compute=50%" into pairs; the daemon checks the values.
void end_limits(TopState& state) {
  LimitsWish wish{.share = state.limits_for, .values = {}};
  for (const std::string& word : split(state.typed, ' ')) {
    if (word.empty()) continue;
    const std::size_t equals = word.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == word.size()) {
      state.said = "'" + word + "' is not understood; accepted: mem=12GiB compute=50%";
      return;
    }
    wish.values.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  if (!wish.values.empty()) state.wish = std::move(wish);
}

void tag(TopState& state) {
  const auto row = chosen_row(state);
  if (!row) state.said = kGone;
  else if (!row->process) state.said = "only processes are tagged: 4 shows them, t those of each share";
  else if (row->host_pid == 0) state.said = kUnknownPid;
  else {
    if (state.tagged.erase(row->host_pid) == 0) state.tagged[row->host_pid] = state.now->taken_unix_ns;
    move_to(state, 1);
  }
}

// The driver reports host PIDs. In a PID namespace, our PIDs are known only for processes in shares.
bool is_reachable(const TopState& state, const snapshot::Process& process) {
  return process.pid != 0 && !process.claimed && (!process.share.empty() || observe::is_hosts(state.pid_space));
}

// Returns the tagged processes, else those of the selected row; for a share, all of its processes.
SignalWish chosen_processes(const TopState& state, const TopRow& row) {
  SignalWish wish;
  for (const auto& process : state.now->processes) {
    const auto tag = state.tagged.find(process.pid);
    const bool chosen = !state.tagged.empty() ? tag != state.tagged.end()
                        : row.process         ? row.host_pid != 0 && row.host_pid == process.pid
                                              : !row.share.empty() && row.share == process.share;
    if (chosen && is_reachable(state, process))
      wish.to.push_back({process.pid, process.command, process.user,
                         tag != state.tagged.end() ? tag->second : state.now->taken_unix_ns});
  }
  return wish;
}

void begin_signal(TopState& state) {
  const auto row = chosen_row(state);
  if (state.readonly) state.said = "this is --readonly: no signal is sent from here";
  else if (!state.now || state.pid_space.empty() || state.now->node.pid_space != state.pid_space)
    state.said = "these are processes of another machine or container: signal them there";
  else if (std::exchange(state.lost_tags, false))
    state.said = "some of what was tagged has ended; look, and press k again";
  else if (state.tagged.empty() && !row) state.said = kGone;
  else if (state.signal_for = chosen_processes(state, row.value_or(TopRow{})); !state.signal_for.to.empty()) {
    state.mode = TopMode::signal;
    state.typed.clear();
  } else {
    state.said = row && row->process ? kUnknownPid : "choose a process, or a share that has some, first";
  }
}

void end_signal(TopState& state) {
  if (const auto number = signal_number(state.typed)) {
    state.signal_for.number = *number;
    state.signal = std::move(state.signal_for);
  } else {
    state.said = "'" + state.typed + "' is no signal; accepted: TERM, INT, HUP, KILL and others, or 1 to 31";
  }
}

// Handles keys in the modes that take text.
void type(TopState& state, const Key& key) {
  switch (key.kind) {
    case KeyKind::text:
      if (state.typed.size() + key.text.size() <= kLongestText) state.typed += key.text;
      break;
    case KeyKind::backspace:
      while (!state.typed.empty() && (static_cast<unsigned char>(state.typed.back()) & 0xc0) == 0x80)
        state.typed.pop_back();
      if (!state.typed.empty()) state.typed.pop_back();
      break;
    case KeyKind::enter:
      if (state.mode == TopMode::limits) end_limits(state);
      if (state.mode == TopMode::signal) end_signal(state);
      state.mode = TopMode::table;
      return;
    case KeyKind::escape:
      if (state.mode == TopMode::filter) state.filter.clear();
      state.mode = TopMode::table;
      return;
    default: break;
  }
  if (state.mode == TopMode::filter) state.filter = state.typed;
}

void letter(TopState& state, char which) {
  const auto turn = [](int value, int step, int count) { return (value + step + count) % count; };
  switch (which) {
    case 'q': state.quit = true; break;
    case '?':
    case 'h':
      state.mode = state.mode == TopMode::help ? TopMode::table : TopMode::help;
      state.help_from = 0;
      break;
    case '/':
      state.mode = TopMode::filter;
      state.typed = state.filter;
      break;
    case '<': state.sort = static_cast<TopSort>(turn(static_cast<int>(state.sort), -1, kSorts)); break;
    case '>': state.sort = static_cast<TopSort>(turn(static_cast<int>(state.sort), 1, kSorts)); break;
    case 'r': state.reverse = !state.reverse; break;
    case 't': state.tree = !state.tree; break;
    case 's': choose_view(state, static_cast<TopView>(turn(static_cast<int>(state.view), 1, 4))); break;
    case 'u': next_user(state); break;
    case 'p': state.preset = static_cast<TopPreset>(turn(static_cast<int>(state.preset), 1, 3)); break;
    case 'z': state.paused = !state.paused; break;
    case '+': change_interval(state, true); break;
    case '-': change_interval(state, false); break;
    case 'e': begin_limits(state); break;
    case 'k': begin_signal(state); break;
    case ' ': tag(state); break;
    case '1':
    case '2':
    case '3':
    case '4': choose_view(state, static_cast<TopView>(which - '1')); break;
    default: state.said = std::string("no key ") + which + ": ? shows the keys";
  }
}

// How far the key goes, in rows or lines; nothing for other keys.
std::optional<int> step_of(KeyKind key, int page) {
  constexpr int kAll = 1'000'000;
  switch (key) {
    case KeyKind::up: return -1;
    case KeyKind::down: return 1;
    case KeyKind::page_up: return -page;
    case KeyKind::page_down: return page;
    case KeyKind::home: return -kAll;
    case KeyKind::end: return kAll;
    default: return std::nullopt;
  }
}

}  // namespace

TopState observed(TopState state, snapshot::Snapshot picture, std::vector<snapshot::Event> events) {
  if (state.paused) return state;
  std::vector<std::string> known;
  for (const auto& share : picture.shares) {
    for (const auto& device : share.devices) {
      const std::string key = history_key(share.name, device.uuid);
      known.push_back(key);
      remember(state.held, key, device.held_ratio.value_or(0));
      const auto limit = device.memory_limit_bytes.value_or(0);
      if (limit > 0)
        remember(state.memory, key, static_cast<double>(device.memory_used_bytes) / static_cast<double>(limit));
    }
  }
  for (const auto& gpu : picture.gpus) {
    known.push_back(gpu.uuid);
    remember(state.held, gpu.uuid, gpu.busy_ratio.value_or(0));
  }
  forget_gone(state.held, known);
  forget_gone(state.memory, known);
  std::ranges::move(events, std::back_inserter(state.events));
  if (state.events.size() > kTopEvents)
    state.events.erase(state.events.begin(), state.events.end() - static_cast<std::ptrdiff_t>(kTopEvents));
  state.now = std::move(picture);
  // Drop the tag of a process that has ended, because its PID may be reused.
  const auto ended = [&state](const auto& tag) {
    return std::ranges::find(state.now->processes, tag.first, &snapshot::Process::pid) == state.now->processes.end();
  };
  state.lost_tags |= std::erase_if(state.tagged, ended) > 0;
  return state;
}

TopState apply(TopState state, const Key& key) {
  state.said.clear();
  if (state.mode == TopMode::filter || state.mode == TopMode::limits || state.mode == TopMode::signal) {
    type(state, key);
    return state;
  }
  const bool helps = state.mode == TopMode::help;
  if (const auto step = step_of(key.kind, helps ? kHelpPage : kPage)) {
    // On a small terminal the help page is longer than the screen.
    if (helps) state.help_from = std::clamp(state.help_from + *step, 0, kLongestHelp);
    else move_to(state, *step);
    return state;
  }
  switch (key.kind) {
    case KeyKind::text:
      if (key.text.size() == 1) letter(state, key.text[0]);
      break;
    case KeyKind::enter: state.mode = state.mode == TopMode::table ? TopMode::details : TopMode::table; break;
    case KeyKind::escape:
      if (state.mode == TopMode::table)
        state.filter.clear(), state.user.clear(), state.tagged.clear(), state.lost_tags = false;
      state.mode = TopMode::table;
      break;
    case KeyKind::tab: letter(state, 's'); break;
    case KeyKind::f1: letter(state, '?'); break;
    case KeyKind::f6: letter(state, '>'); break;
    case KeyKind::f9: letter(state, 'k'); break;
    case KeyKind::f10: state.quit = true; break;
    default: break;
  }
  return state;
}

}  // namespace headgate::cli
