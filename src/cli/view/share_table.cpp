// Tables of shares and GPUs: `headgate share ls`, `headgate gpu ls`.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "cli/view/names.hpp"
#include "cli/view/views.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

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

void add_wide(std::vector<std::string>& row, const snapshot::Share& share, const snapshot::ShareDevice& device,
              const snapshot::Snapshot& now) {
  row.push_back(share.level);
  row.push_back("\t" + bytes_text(device.memory_peak_bytes));
  row.push_back(format_class(device));
  row.push_back(format_pids(now, share.name));
  row.push_back("\t" + (share.ttl_ns ? short_duration_text(*share.ttl_ns) : "-"));
  row.push_back(or_dash(share.admit));
  row.push_back(or_dash(share.on_oom));
  row.push_back(or_dash(share.fail_policy));
  row.push_back("\t" + (share.freeze_after_ns ? short_duration_text(*share.freeze_after_ns) : "-"));
  row.push_back("\t" + (share.idle_notice_ns ? short_duration_text(*share.idle_notice_ns) : "-"));
  row.push_back(or_dash(share.gang));
  row.push_back(device.uuid);
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
  if (wide) {
    for (const char* heading : {"LEVEL", "\tPEAK", "CLASS", "PIDS", "\tENDS IN", "ADMIT", "ON OOM", "FAILS",
                                "\tFREEZES AFTER", "\tNOTICE AFTER", "GANG", "UUID"})
      rows[0].emplace_back(heading);
  }
  for (const auto& share : shares) {
    if (share.devices.empty())
      rows.push_back({share.name, share.owner, "-", "-", "-", "-", "-", share.state + ": " + share.problem});
    for (const auto& device : share.devices) {
      rows.push_back({share.name, share.owner, gpu_cell(now, device.uuid), "\t" + memory_text(device),
                      compute_text(device, share.overcommit),
                      "\t" + (device.held_ratio      ? rate_text(ppm_of(*device.held_ratio))
                              : share.processes == 0 ? "0 %"
                                                     : "-"),
                      "\t" + std::to_string(share.processes), state_text(now, share, device)});
      if (wide) add_wide(rows.back(), share, device, now);
    }
  }
  return table(rows, voice);
}

std::string waiting_text(const snapshot::Snapshot& now, const Voice& voice) {
  if (now.waiting.empty()) return {};
  std::vector<std::vector<std::string>> rows = {
      {"\tIN LINE", "SHARE", "OWNER", "GPU", "\tMEMORY", "COMPUTE", "\tWAITED", "WHY"}};
  for (const auto& waiting : now.waiting) {
    std::string gpus;
    for (const auto& uuid : waiting.uuids) {
      const auto gpu = std::ranges::find(now.gpus, uuid, &snapshot::Gpu::uuid);
      gpus += (gpus.empty() ? "" : ",") + (gpu == now.gpus.end() ? uuid : std::to_string(gpu->index));
    }
    rows.push_back({"\t" + std::to_string(waiting.place), waiting.share, waiting.owner, gpus,
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
  if (wide) {
    for (const char* heading : {"\tLIMIT", "\tCLOCK", "\tIN SHARES", "\tIN NONE", "MODE", "MIG", "PCI", "UUID"})
      rows[0].emplace_back(heading);
  }
  for (const auto& gpu : snapshot.now.gpus) {
    const auto shares = std::ranges::count_if(snapshot.now.shares, [&](const snapshot::Share& share) {
      return std::ranges::find(share.devices, gpu.uuid, &snapshot::ShareDevice::uuid) != share.devices.end();
    });
    const auto watts = [](std::optional<std::uint32_t> mw) {
      return "\t" + (mw ? std::to_string(*mw / 1000) + " W" : std::string("-"));
    };
    rows.push_back({std::to_string(gpu.index), short_model(gpu.model), "\t" + bytes_text(gpu.memory_used_bytes),
                    "\t" + bytes_text(gpu.memory_total_bytes),
                    "\t" + (gpu.busy_ratio ? std::to_string(std::lround(*gpu.busy_ratio * 100)) + " %" : "-"),
                    "\t" + number_text(gpu.temperature_celsius, " C"), watts(gpu.power_mw),
                    "\t" + std::to_string(shares), policy_text(gpu)});
    if (!wide) continue;
    auto& row = rows.back();
    row.push_back(watts(gpu.power_limit_mw));
    row.push_back("\t" + number_text(gpu.sm_clock_mhz, " MHz"));
    row.push_back("\t" + bytes_text(gpu.memory_shares_bytes));
    row.push_back("\t" + bytes_text(gpu.memory_unattributed_bytes));
    row.push_back(or_dash(gpu.compute_mode));
    row.push_back(gpu.mig ? (*gpu.mig ? "on" : "off") : "-");
    row.push_back(gpu.pci_bus_id);
    row.push_back(gpu.uuid);
  }
  const std::string others = format_others(snapshot.now);
  return stamp(snapshot.now, voice) + table(rows, voice) +
         (others.empty() ? "" : "not counted: " + others + ", whose memory is in use and committed all the same\n");
}

std::string gpus_json(const NodeSnapshot& snapshot) {
  return enclosed("headgate.gpus/v1", "gpus", snapshot::to_json(snapshot.now.gpus), snapshot.now);
}

}  // namespace headgate::cli
