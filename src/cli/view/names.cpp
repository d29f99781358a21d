#include "cli/view/names.hpp"

#include <cmath>

#include "base/units.hpp"
#include "observe/promises.hpp"

namespace headgate::cli {

std::string format_gpu(const snapshot::Snapshot& snapshot, const std::string& uuid) {
  const auto* gpu = find_gpu(snapshot, uuid);
  return gpu == nullptr ? uuid.substr(0, 12) : "GPU " + std::to_string(gpu->index);
}

std::string gpu_cell(const snapshot::Snapshot& snapshot, const std::string& uuid) {
  const auto* gpu = find_gpu(snapshot, uuid);
  return gpu == nullptr ? uuid.substr(0, 12) : std::to_string(gpu->index);
}

bool is_gpu_of(const snapshot::Snapshot& snapshot, const std::string& uuid) {
  if (snapshot.gpus.empty() || snapshot.node.nvml_released) return true;
  return std::ranges::any_of(snapshot.gpus, [&](const snapshot::Gpu& gpu) {
    return gpu.uuid == uuid || find_row(gpu.mig_instances, uuid, &snapshot::MigInstance::uuid) != nullptr;
  });
}

std::string staleness(const snapshot::Snapshot& snapshot) {
  return snapshot.node.nvml_released ? "GPU FIGURES ARE OLD" : "";
}

std::string format_old_snapshot(std::uint64_t taken_unix_ns, std::uint64_t now_unix_ns) {
  return "headgated does not answer: this snapshot is " +
         short_duration_text(now_unix_ns - std::min(taken_unix_ns, now_unix_ns)) + " old; see: headgate doctor";
}

std::string caveats(const snapshot::Snapshot& snapshot, const Voice& voice) {
  const std::string old = staleness(snapshot);
  return (snapshot.node.simulated ? ", " + warning("SIMULATED", voice) : "") +
         (old.empty() ? "" : ", " + warning(old, voice));
}

std::string stamp(const snapshot::Snapshot& snapshot, const Voice& voice) {
  const std::string text =
      (is_weak(snapshot.node.level) ? ", level " + snapshot.node.level : "") + caveats(snapshot, voice);
  return text.empty() ? "" : text.substr(2) + "\n";
}

bool is_weak(const std::string& level) { return level == "observe"; }

std::uint32_t ppm_of(double ratio) {
  return ratio > 0 ? static_cast<std::uint32_t>(std::min(ratio, 1000.0) * 1e6 + 0.5) : 0;
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string percent_of(double ratio) { return percent_text(ppm_of(ratio)); }

std::string format_others(const snapshot::Snapshot& snapshot) {
  if (snapshot.node.shares <= snapshot.shares.size()) return {};
  const std::size_t others = snapshot.node.shares - snapshot.shares.size();
  return std::to_string(others) + (others == 1 ? " share of others" : " shares of others");
}

std::string format_state(const std::string& state, std::uint64_t idle_ns) {
  constexpr std::uint64_t kMinute = 60'000'000'000;
  if (state == "throttled") return "at limit";
  if (state == "takes turns") return "shares GPU";
  return state == "idle" && idle_ns >= kMinute ? "idle " + short_duration_text(idle_ns) : state;
}

std::string state_on(const snapshot::Snapshot& snapshot, const snapshot::Share& share,
                     const snapshot::ShareDevice& device) {
  const bool bypassed = std::ranges::any_of(snapshot.processes, [&share](const auto& process) {
    return process.share == share.name && !process.finding.empty();
  });
  if (bypassed) return "bypassed";
  if (device.short_ratio.value_or(0) > observe::kShortRatio && !share.overcommit) return "starved";
  if (share.devices.size() < 2 || (share.state != "throttled" && share.state != "takes turns")) return share.state;
  if (device.throttled_ratio.value_or(0) <= 0.01) return "ok";
  return device.waits_for == "turn" ? "takes turns" : device.waits_for == "ceiling" ? "throttled" : "ok";
}

std::vector<std::string> format_freeze(const snapshot::Process& process) {
  if (!process.freeze) return {};
  return {"frozen by the audit (audit.policy = freeze) with its cgroup " + process.freeze->cgroup +
              ": it stands still and keeps its memory",
          "to let it go on, as root: " + process.freeze->thaw};
}

std::string format_class(const snapshot::ShareDevice& device) {
  std::string words = device.priority_class;
  if (device.weight != 0) words += (words.empty() ? "weight " : ", weight ") + std::to_string(device.weight);
  return words.empty() ? "-" : words;
}

std::string format_waits(const snapshot::ShareDevice& device) {
  if (!device.throttled_ratio) return "waits -";
  std::string text;
  const auto add = [&](const std::optional<double>& ratio, const char* for_what) {
    if (ratio.value_or(0) >= 0.01)
      text += (text.empty() ? " " : ", ") + std::to_string(std::lround(*ratio * 100)) + " % " + for_what;
  };
  add(device.limit_wait_ratio, "own limit");
  add(device.turn_wait_ratio, "turn");
  add(device.work_wait_ratio, "own queue");
  return "waits" + (text.empty() ? " 0 %" : text);
}

std::string format_promise(const snapshot::Share& share, const snapshot::ShareDevice& device) {
  if (device.compute_guarantee_ratio == 0 || share.overcommit) return "promised nothing";
  std::string text = "promised " + percent_of(device.compute_guarantee_ratio);
  if (!device.had_ratio || !device.wanted_ratio) return text;
  text += ", had " + rate_text(ppm_of(*device.had_ratio)) + ", wanted " + rate_text(ppm_of(*device.wanted_ratio));
  const double lacks = device.short_ratio.value_or(0);
  return lacks > observe::kShortRatio ? text + ", short " + rate_text(ppm_of(lacks)) : text;
}

std::string format_pids(const snapshot::Snapshot& snapshot, const std::string& share) {
  constexpr std::size_t kMost = 4;
  std::string words;
  std::size_t count = 0;
  for (const auto& process : snapshot.processes) {
    if (process.share != share || ++count > kMost) continue;
    words += (words.empty() ? "" : " ") + std::to_string(shown_pid(process));
  }
  if (count > kMost) words += " and " + std::to_string(count - kMost) + " more";
  return words.empty() ? "-" : words;
}

std::string programs_text(std::uint32_t count) {
  return std::to_string(count) + (count == 1 ? " program" : " programs");
}

std::uint32_t shown_pid(const snapshot::Process& process) {
  return process.pid != 0 ? process.pid : process.pid_in_share.value_or(0);
}

}  // namespace headgate::cli
