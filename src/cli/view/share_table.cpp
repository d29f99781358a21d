// Tables of shares and GPUs: `headgate share ls`, `headgate gpu ls`.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/units.hpp"
#include "cli/share/order.hpp"
#include "cli/view/names.hpp"
#include "cli/view/views.hpp"

namespace headgate::cli {
namespace {

std::string compute_text(const snapshot::ShareDevice& device, bool overcommitted) {
  if (overcommitted) return "overcommitted, at most " + percent_of(device.compute_ceiling_ratio);
  if (device.compute_guarantee_ratio == 0)
    return device.compute_ceiling_ratio >= 1 ? "no limit" : "at most " + percent_of(device.compute_ceiling_ratio);
  const std::string promised = percent_of(device.compute_guarantee_ratio);
  return device.compute_ceiling_ratio > device.compute_guarantee_ratio
             ? promised + ", at most " + percent_of(device.compute_ceiling_ratio)
             : promised;
}

std::string memory_text(const snapshot::ShareDevice& device) {
  return (device.memory_used_bytes == 0 ? "0" : bytes_text(device.memory_used_bytes)) +
         (device.memory_limit_bytes ? " of " + bytes_text(*device.memory_limit_bytes) : ", no limit");
}

// Names the origin of the policy if it is not the configuration, where an administrator would look first: "fair", "off
// (by command)"; "off (MPS, else fair)" if programs of several shares run at once.
std::string policy_text(const snapshot::Gpu& gpu) {
  const bool by_command = gpu.policy_from == "command";
  if (gpu.policy_in_force.empty() || gpu.policy_in_force == gpu.policy)
    return or_dash(gpu.policy) + (by_command ? " (by command)" : "");
  return gpu.policy_in_force + " (MPS, else " + gpu.policy + (by_command ? " by command)" : ")");
}

template <typename T>
std::string number_text(const std::optional<T>& value, const char* unit) {
  return value ? std::to_string(*value) + unit : "-";
}

std::string state_text(const snapshot::Snapshot& now, const snapshot::Share& share,
                       const snapshot::ShareDevice& device) {
  if (share.state == "broken") return "broken: " + share.problem;
  return (share.expired ? "expired, waits for " + programs_text(share.processes)
                        : format_state(state_on(now, share, device), share.idle_ns)) +
         (is_weak(share.level) ? ", level " + share.level : "");
}

// Columns that only the wide form has, each with its heading.
std::vector<std::pair<std::string, std::string>> wide_cells(const snapshot::Share& share,
                                                            const snapshot::ShareDevice& device,
                                                            const snapshot::Snapshot& now) {
  std::vector<std::pair<std::string, std::string>> cells = {
      {"LEVEL", share.level},
      {"\tPEAK", "\t" + bytes_text(device.memory_peak_bytes)},
      {"CLASS", format_class(device)},
      {"PIDS", format_pids(now, share.name)},
      {"\tENDS IN", "\t" + (share.ttl_ns ? short_duration_text(*share.ttl_ns) : "-")}};
  for (const auto& [name, value, is_time] : shown_attributes(share, short_duration_text)) {
    std::string heading;
    for (const char c : name) heading += c == '-' ? ' ' : static_cast<char>(std::toupper(c));
    cells.emplace_back((is_time ? "\t" : "") + heading, (is_time ? "\t" : "") + or_dash(value));
  }
  cells.emplace_back("UUID", device.uuid);
  return cells;
}

}  // namespace

std::string shares_text(const std::vector<snapshot::Share>& shares, const snapshot::Snapshot& now, const Voice& voice) {
  if (shares.empty()) {
    const std::string others = format_others(now);
    return (others.empty() ? "there are no shares" : "you have no share; not shown: " + others) +
           "; make one: headgate share create NAME --mem 8GiB --compute 50%\n";
  }
  const bool wide = voice.format == Format::wide;
  std::vector<std::vector<std::string>> rows = {
      {"SHARE", "OWNER", "GPU", "\tMEMORY", "COMPUTE", "\tTIME", "\tPROCS", "STATE"}};
  if (wide)
    for (const auto& [heading, cell] : wide_cells({}, {}, now)) rows[0].push_back(heading);
  for (const auto& share : shares) {
    if (share.devices.empty())
      rows.push_back({share.name, share.owner, "-", "-", "-", "-", "-", share.state + ": " + share.problem});
    for (const auto& device : share.devices) {
      rows.push_back({share.name, share.owner, gpu_cell(now, device.uuid), "\t" + memory_text(device),
                      compute_text(device, share.overcommit),
                      "\t" + (device.held_ratio      ? rate_text(ppm_of(*device.held_ratio))
                              : share.processes == 0 ? rate_text(0)
                                                     : "-"),
                      "\t" + std::to_string(share.processes), state_text(now, share, device)});
      if (!wide) continue;
      for (const auto& [heading, cell] : wide_cells(share, device, now)) rows.back().push_back(cell);
    }
  }
  return table(rows, voice);
}

std::string waiting_text(const snapshot::Snapshot& now, const Voice& voice) {
  if (now.waiting.empty()) return {};
  std::vector<std::vector<std::string>> rows = {
      {"\tIN LINE", "SHARE", "OWNER", "GPU", "\tMEMORY", "COMPUTE", "\tWAITED", "WHY"}};
  for (const auto& waiting : now.waiting) {
    const auto gpu_text = [&](const std::string& uuid) {
      const auto* gpu = find_gpu(now, uuid);
      return gpu == nullptr ? uuid : std::to_string(gpu->index);
    };
    rows.push_back({"\t" + std::to_string(waiting.place), waiting.share, waiting.owner,
                    joined(waiting.uuids, ",", gpu_text),
                    "\t" + (waiting.memory_limit_bytes ? bytes_text(*waiting.memory_limit_bytes) : "all"),
                    waiting.compute_guarantee_ratio == 0 ? "-" : percent_of(waiting.compute_guarantee_ratio),
                    "\t" + short_duration_text(waiting.waited_ns), waiting.reason});
  }
  return "waiting for room:\n" + table(rows, voice);
}

std::string gpus_text(const NodeSnapshot& snapshot, const Voice& voice) {
  const bool wide = voice.format == Format::wide;
  std::vector<std::vector<std::string>> rows = {
      {"GPU", "MODEL", "\tUSED", "\tOF", "\tBUSY", "\tTEMP", "\tPOWER", "\tSHARES", "POLICY"}};
  if (wide)
    rows[0].insert(rows[0].end(), {"\tLIMIT", "\tCLOCK", "\tIN SHARES", "\tIN NONE", "MODE", "MIG", "PCI", "UUID"});
  for (const auto& gpu : snapshot.now.gpus) {
    const auto shares =
        std::ranges::count_if(snapshot.now.shares, [&](const auto& share) { return is_on_gpu(share, gpu.uuid); });
    const auto watts = [](std::optional<std::uint32_t> mw) {
      return "\t" + (mw ? std::to_string(*mw / 1000) + " W" : std::string("-"));
    };
    rows.push_back({std::to_string(gpu.index), short_model(gpu.model), "\t" + bytes_text(gpu.memory_used_bytes),
                    "\t" + bytes_text(gpu.memory_total_bytes),
                    "\t" + (gpu.busy_ratio ? std::to_string(std::lround(*gpu.busy_ratio * 100)) + " %" : "-"),
                    "\t" + number_text(gpu.temperature_celsius, " C"), watts(gpu.power_mw),
                    "\t" + std::to_string(shares), policy_text(gpu)});
    if (!wide) continue;
    rows.back().insert(rows.back().end(), {watts(gpu.power_limit_mw), "\t" + number_text(gpu.sm_clock_mhz, " MHz"),
                                           "\t" + bytes_text(gpu.memory_shares_bytes),
                                           "\t" + bytes_text(gpu.memory_unattributed_bytes), or_dash(gpu.compute_mode),
                                           gpu.mig ? (*gpu.mig ? "on" : "off") : "-", gpu.pci_bus_id, gpu.uuid});
  }
  const std::string others = format_others(snapshot.now);
  return stamp(snapshot.now, voice) + table(rows, voice) +
         (others.empty() ? "" : "not counted: " + others + ", whose memory is in use and committed all the same\n");
}

std::string gpus_json(const NodeSnapshot& snapshot) {
  return enclosed_text("headgate.gpus/v1", "gpus", snapshot::to_json(snapshot.now.gpus), snapshot.now);
}

}  // namespace headgate::cli
