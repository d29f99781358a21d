// One share in full, and the page of keys.
#include <algorithm>
#include <array>

#include "base/units.hpp"
#include "cli/cells.hpp"
#include "cli/names.hpp"
#include "cli/top/parts.hpp"

namespace headgate::cli {
namespace {

class Page {
 public:
  Page(unsigned width, FrameStyle style) : width_(width), style_(style) {}
  FrameLine& line(const std::string& text, const char* look = "") {
    lines_.emplace_back(width_, style_).add(text, look);
    return lines_.back();
  }
  [[nodiscard]] std::vector<FrameLine> take(unsigned most) {
    if (lines_.size() > most) lines_.erase(lines_.begin() + most, lines_.end());
    return std::move(lines_);
  }

 private:
  unsigned width_;
  FrameStyle style_;
  std::vector<FrameLine> lines_;
};

std::string time_words(const snapshot::ShareDevice& device) {
  std::string text = "time " + ratio_text(device.held_ratio) + " of " +
                     allowance_text(device.compute_guarantee_ratio, device.compute_ceiling_ratio);
  if (device.weight > 0) text += ", weight " + std::to_string(device.weight);
  if (!device.priority_class.empty()) text += ", " + device.priority_class;
  return text + (device.metered ? ", held " + duration_text(device.held_ns) + " in all" : ", not measured");
}

std::string memory_words(const snapshot::ShareDevice& device) {
  std::string text = "memory " + bytes_text(device.memory_used_bytes) + " of " +
                     (device.memory_limit_bytes ? bytes_text(*device.memory_limit_bytes) : "no limit") + ", peak " +
                     bytes_text(device.memory_peak_bytes) + ", contexts and code " +
                     bytes_text(device.memory_residual_bytes);
  if (device.memory_draining_bytes > 0) text += ", draining " + bytes_text(device.memory_draining_bytes);
  if (device.host_limit_bytes > 0)
    text += ", host " + bytes_text(device.host_used_bytes) + " of " + bytes_text(device.host_limit_bytes);
  return text;
}

std::string waits_for_words(const snapshot::ShareDevice& device) {
  if (device.waits_for == "turn") return ", mostly for its turn";
  if (device.waits_for == "ceiling") return ", mostly for its limit";
  if (device.waits_for == "work") return ", mostly for its own earlier work";
  return device.waits_for == "pause" ? ", mostly for its resume" : "";
}

std::vector<double> values_of(const TopHistory& history, const std::string& key) {
  const auto found = history.find(key);
  return found == history.end() ? std::vector<double>{} : found->second;
}

void draw_device(Page& page, const TopState& state, const snapshot::Share& share, const snapshot::ShareDevice& device,
                 unsigned width, FrameStyle style) {
  const std::string key = history_key(share.name, device.uuid);
  const unsigned graph = std::min<unsigned>(width - 12, kTopHistory);
  page.line(" " + gpu_words(*state.now, device.uuid) + "  " + time_words(device), "1");
  page.line("  " + memory_words(device));
  page.line("  time    ").add(sparkline(values_of(state.held, key), graph, style), "36");
  page.line("  memory  ").add(sparkline(values_of(state.memory, key), graph, style), "35");
  if (device.last_refusal) {
    const auto& last = *device.last_refusal;
    page.line("  refused " + std::to_string(device.refusals) + (device.refusals == 1 ? " time" : " times") +
                  ", last at " + clock_text(last.unix_ns) + ": process " + std::to_string(last.pid) + " asked for " +
                  bytes_text(last.asked_bytes) + " with " + bytes_text(last.used_bytes) + " in use",
              "31");
  }
  if (device.throttled_launches == 0 && device.throttled_ns > 0)
    page.line("  waits   " + ratio_text(device.throttled_ratio) + " now" + waits_for_words(device) +
              "; launches wait, for " + duration_text(device.throttled_ns) + " in all so far");
  if (device.throttled_launches > 0) {
    page.line("  waits   " + ratio_text(device.throttled_ratio) + " now" + waits_for_words(device) + "; " +
              std::to_string(device.throttled_launches) + " launches waited " + duration_text(device.throttled_ns) +
              " in all, the last at " + clock_text(device.last_throttle_unix_ns));
  }
}

void draw_processes(Page& page, const TopState& state, const snapshot::Share& share) {
  page.line("     PID  USER      COMMAND             MEMORY  BUSY  WHERE", "1");
  for (const auto& process : state.now->processes) {
    if (process.share != share.name) continue;
    std::uint64_t bytes = 0;
    std::optional<double> busy;
    for (const auto& device : process.devices) {
      bytes += device.driver_bytes.value_or(device.ledger_bytes);
      if (device.busy_ratio) busy = busy.value_or(0) + *device.busy_ratio;
    }
    const std::uint32_t pid = shown_pid(process);
    page.line(" " + fitted_right(std::to_string(pid), 7) + "  " + fitted(process.user, 8) + "  " +
              fitted(process.command, 16) + "  " + fitted_right(short_bytes_text(bytes), 8) + "  " +
              fitted_right(ratio_text(busy), 4) + "  " + (process.where.empty() ? "-" : process.where) +
              (process.finding.empty() ? "" : "  " + process.finding));
  }
}

}  // namespace

std::vector<FrameLine> details_lines(const TopState& state, unsigned width, unsigned most, FrameStyle style) {
  Page page(width, style);
  const auto rows = rows_of(state);
  const std::string name = rows.empty() ? "" : rows[selected_row(rows, state)].share;
  const auto share = std::ranges::find(state.now->shares, name, &snapshot::Share::name);
  if (share == state.now->shares.end()) {
    page.line(" this row is of no share; choose another (Enter goes back)");
    return page.take(most);
  }
  page.line(" " + share->name, "1;7")
      .add("  owner " + share->owner + "  " + share->state + "  level " + share->level + "  fails " +
           share->fail_policy + (share->idle_ns > 0 ? "  idle " + duration_text(share->idle_ns) : "") +
           (share->ttl_ns ? "  ends in " + duration_text(*share->ttl_ns) : ""));
  if (!share->problem.empty()) page.line(" " + share->problem, "31");
  for (const auto& device : share->devices) draw_device(page, state, *share, device, width, style);
  draw_processes(page, state, *share);
  return page.take(most);
}

std::vector<FrameLine> help_lines(const TopState& state, unsigned width, FrameStyle style) {
  Page page(width, style);
  constexpr std::array<std::pair<const char*, const char*>, 12> kKeys = {{
      {"arrows PgUp PgDn Home End", "choose a row"},
      {"Enter", "the share in full, with its processes; back"},
      {"/ TEXT Enter", "only rows with that text; Esc shows all"},
      {"u", "only one user's rows: the next user, then all again"},
      {"< >  F6  r", "sort by the column before or after; reverse"},
      {"s Tab  1 2 3 4", "by share, GPU, user, process"},
      {"Space", "tag a process; Esc takes all tags off"},
      {"t", "tree: what belongs to each row below it"},
      {"+ -", "longer or shorter between two looks"},
      {"p", "all parts; the table alone; GPUs and events"},
      {"z", "hold the picture; go on"},
      {"? h F1; q F10", "this page; end"},
  }};
  page.line(" KEYS", "1");
  for (const auto& [keys, does] : kKeys) page.line("  " + fitted(keys, 26)).add(does);
  if (!state.readonly) {
    page.line("  " + fitted("e", 26)).add("new limits for the share (needs the daemon)");
    page.line("  " + fitted("k F9", 26)).add("a signal for what is tagged, or for this row");
  }
  page.line(" THE BARS", "1");
  page.line(style.ascii || !style.colour ? "  memory: the shares, ? of no share, : reserved, . free"
                                         : "  memory: the shares, then what is of no share, reserved, free");
  page.line("  time: held by each share, then by no share; | ends what is guaranteed");
  page.line(" THE COLUMNS", "1");
  page.line("  OF guaranteed or at most   WAITS of the time, for the GPU   REF refusals");
  page.line("  throttled: it is at its limit   takes turns: others want the GPU as well");
  page.line("  level hook: a library in the program; one that wants to escape can");
  return page.take(30);
}

}  // namespace headgate::cli
