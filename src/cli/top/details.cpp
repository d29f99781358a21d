// The details of one share, GPU or outside process, and the help page for keys.
#include <algorithm>
#include <array>

#include "base/units.hpp"
#include "cli/top/picture.hpp"
#include "cli/view/names.hpp"

namespace headgate::cli {
namespace {

class Page {
 public:
  Page(unsigned width, FrameStyle style) : width_(width), style_(style) {}
  FrameLine& line(const std::string& text, const char* look = "") {
    lines_.emplace_back(width_, style_).add(text, look);
    return lines_.back();
  }
  // Uses as many lines as needed; lines after the first are indented further.
  void text(unsigned indent, const std::string& text, const char* look = "") {
    unsigned in = indent;
    for (const auto& part : wrapped(harmless(text), width_ > indent + 2 ? width_ - indent - 2 : 1)) {
      line(std::string(in, ' ') + part, look);
      in = indent + 2;
    }
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

std::string format_time(const snapshot::ShareDevice& device) {
  std::string text = "time " + ratio_text(device.sm_held_ratio ? device.sm_held_ratio : device.held_ratio) + " of " +
                     allowance_text(device.compute_guarantee_ratio, device.compute_ceiling_ratio);
  if (device.weight > 0) text += ", weight " + std::to_string(device.weight);
  if (!device.priority_class.empty()) text += ", " + device.priority_class;
  return text + (device.metered ? ", held " + duration_text(device.held_ns) + " in all" : ", not measured");
}

std::string format_memory(const snapshot::ShareDevice& device) {
  std::string text = "memory " + bytes_text(device.memory_used_bytes) + " of " +
                     (device.memory_limit_bytes ? bytes_text(*device.memory_limit_bytes) : "no limit") + ", peak " +
                     bytes_text(device.memory_peak_bytes) + ", contexts and code " +
                     bytes_text(device.memory_residual_bytes);
  if (device.memory_draining_bytes > 0) text += ", draining " + bytes_text(device.memory_draining_bytes);
  if (device.host_limit_bytes > 0)
    text += ", host " + bytes_text(device.host_used_bytes) + " of " + bytes_text(device.host_limit_bytes);
  return text;
}

std::string format_waits_for(const snapshot::ShareDevice& device) {
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
  page.text(1, format_gpu(*state.now, device.uuid) + "  " + format_time(device), "1");
  page.text(2, format_memory(device));
  page.line("  time    ").add(sparkline(values_of(state.held, key), graph, style), "36");
  page.line("  memory  ").add(sparkline(values_of(state.memory, key), graph, style), "35");
  if (device.last_refusal) {
    const auto& last = *device.last_refusal;
    page.text(2,
              "refused " + std::to_string(device.refusals) + (device.refusals == 1 ? " time" : " times") +
                  ", last at " + clock_text(last.unix_ns) + ": process " + std::to_string(last.pid) + " asked for " +
                  bytes_text(last.asked_bytes) + " with " + bytes_text(last.used_bytes) + " in use",
              "31");
  }
  if (device.throttled_ns > 0)
    page.text(2, "waits   " + ratio_text(device.throttled_ratio) + " now" + format_waits_for(device) + "; " +
                     (device.throttled_launches == 0
                          ? "launches wait, for " + duration_text(device.throttled_ns) + " in all so far"
                          : std::to_string(device.throttled_launches) + " launches waited " +
                                duration_text(device.throttled_ns) + " in all, the last at " +
                                clock_text(device.last_throttle_unix_ns)));
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
              fitted_right(ratio_text(busy), 4) + "  " + (process.where.empty() ? "-" : process.where));
    if (!process.finding.empty()) page.text(9, process.finding, "31");
    for (const auto& sentence : format_freeze(process)) page.text(9, sentence, "33");
  }
}

// Draws a process outside all shares: what it uses, what the audit found, what to do.
void draw_outsider(Page& page, const TopState& state, const snapshot::Process& process) {
  page.line(" " + (process.command.empty() ? "-" : process.command) + " " + std::to_string(shown_pid(process)), "1;7")
      .add("  user " + (process.user.empty() ? "-" : process.user) + "  in no share  level " + process.level + "  " +
           (process.where.empty() ? "-" : process.where));
  for (const auto& device : process.devices)
    page.line("  " + format_gpu(*state.now, device.uuid) + "  " +
              (device.driver_bytes ? bytes_text(*device.driver_bytes) : "memory not told") + ", busy " +
              ratio_text(device.busy_ratio));
  page.text(2, process.finding.empty() ? "the audit holds nothing against it" : process.finding,
            process.finding.empty() ? "" : "31");
  for (const auto& sentence : format_freeze(process)) page.text(2, sentence, "33");
  page.text(2, "to hold it: end it (k), and start it with headgate run --share NAME -- COMMAND");
}

// Draws a GPU's memory and time as parts that add up to the whole, its throttling, and the share that has its turn.
void draw_gpu(Page& page, const TopState& state, const snapshot::Gpu& gpu) {
  page.line(" GPU " + std::to_string(gpu.index) + " " + short_model(gpu.model), "1;7")
      .add("  " + gpu.uuid + "  " + gpu.pci_bus_id);
  if (gpu.uuid.empty()) return;  // it does not answer: zeros would look like readings
  page.text(2, "memory  " + bytes_text(gpu.memory_total_bytes) + ": shares use " + bytes_text(gpu.memory_shares_bytes) +
                   ", others " + bytes_text(gpu.memory_unattributed_bytes) + ", the driver " +
                   bytes_text(gpu.memory_reserved_bytes) + ", free " + bytes_text(gpu.memory_free_bytes));
  page.text(
      2,
      "commit  " + bytes_text(gpu.memory_committed_bytes) + " and " + ratio_text(gpu.compute_committed_ratio) +
          " of its time" +
          (gpu.memory_uncommitted_bytes ? "; at most " + bytes_text(*gpu.memory_uncommitted_bytes) + " more" : "") +
          (gpu.unlimited_shares > 0 ? "; shares without a memory limit: " + std::to_string(gpu.unlimited_shares) : ""));
  page.text(2, "time    busy " + ratio_text(gpu.busy_ratio) + ", SMs active " + ratio_text(gpu.sm_active_ratio) +
                   (gpu.policy_in_force.empty() ? "" : ", policy " + gpu.policy_in_force));
  if (gpu.waiting > 0)
    page.text(2, "in line " + std::to_string(gpu.waiting) + " for room on it: headgate share ls", "33");
  if (!gpu.throttle_reasons.empty()) page.text(2, "slowed by " + joined(gpu.throttle_reasons, ", "), "33");
  for (const auto& xid : gpu.xids)
    page.text(2,
              "XID " + std::to_string(xid.xid) + " " + std::to_string(xid.count) +
                  (xid.count == 1 ? " time" : " times") + " since headgated started: headgate events --kind gpu.xid",
              "31");
  for (const auto& process : state.now->processes)
    if (is_on_gpu(process, gpu.uuid) && process.share.empty() && !process.finding.empty())
      page.text(2, process.finding, "31");
}

}  // namespace

std::vector<FrameLine> details_lines(const TopState& state, unsigned width, unsigned most, FrameStyle style) {
  Page page(width, style);
  const auto rows = rows_of(state);
  const TopRow row = rows.empty() ? TopRow{} : rows[selected_row(rows, state)];
  const auto* share = find_share(*state.now, row.share);
  if (share == nullptr) {
    const auto process = std::ranges::find_if(state.now->processes, [&row](const auto& one) {
      return row.process && one.share == row.share && shown_pid(one) == row.pid;
    });
    const auto gpu = std::ranges::find_if(
        state.now->gpus, [&row](const auto& one) { return row.key.starts_with("gpu/") && one.uuid == row.uuid; });
    if (process != state.now->processes.end()) draw_outsider(page, state, *process);
    else if (gpu != state.now->gpus.end()) draw_gpu(page, state, *gpu);
    else page.line(" details are of shares, processes and GPUs: t shows a user's shares (Enter goes back)");
    return page.take(most);
  }
  const std::string words = "owner " + share->owner + "  " + share->state + "  level " + share->level + "  fails " +
                            share->fail_policy + (share->idle_ns > 0 ? "  idle " + duration_text(share->idle_ns) : "") +
                            (share->ttl_ns ? "  ends in " + duration_text(*share->ttl_ns) : "");
  FrameLine& named = page.line(" " + share->name, "1;7");
  // After a long name the level would be cut off, so it gets its own line.
  if (named.left() >= cells(words) + 2) named.add("  " + words);
  else page.text(2, words);
  if (!share->problem.empty()) page.line(" " + share->problem, "31");
  for (const auto& device : share->devices) draw_device(page, state, *share, device, width, style);
  draw_processes(page, state, *share);
  return page.take(most);
}

std::vector<FrameLine> help_lines(const TopState& state, unsigned width, FrameStyle style) {
  Page page(width, style);
  constexpr std::array<std::pair<const char*, const char*>, 12> kKeys = {{
      {"arrows PgUp PgDn Home End", "choose a row"},
      {"Enter", "the share, GPU or process in full; back"},
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
  const auto key = [&](const char* keys, const char* does) {
    const std::string left = "  " + fitted(keys, 26);
    std::string before = left;
    for (const auto& part : wrapped(does, width - cells(left))) {
      page.line(before + part);
      before = std::string(cells(left), ' ');
    }
  };
  for (const auto& [keys, does] : kKeys) key(keys, does);
  if (!state.readonly) {
    key("e", "new limits for the share (needs the daemon)");
    key("k F9", "a signal for what is tagged, or for this row");
  }
  page.line(" THE BARS", "1");
  page.text(2, style.ascii || !style.colour ? "memory: the shares, ? of no share, : reserved, . free"
                                            : "memory: the shares, then what is of no share, reserved, free");
  page.text(2, "time: held by each share, then by no share; | ends what is guaranteed");
  page.line(" THE COLUMNS", "1");
  page.text(2, "OF guaranteed or at most   WAITS of the time, for the GPU   REF refusals");
  page.text(2, "at limit: its own   shares GPU: with others   starved: short of its promise");
  page.text(2, "level hook: a library in the program; one that wants to escape can");
  return page.take(60);
}

}  // namespace headgate::cli
