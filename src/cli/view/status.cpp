#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/saturating_math.hpp"
#include "base/units.hpp"
#include "cli/commands.hpp"
#include "cli/view/names.hpp"
#include "cli/view/view_command.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

// "15.1/16.0 GiB" if the units are the same, else "512 MiB/16.0 GiB".
std::string of_text(std::uint64_t used_bytes, std::uint64_t limit_bytes) {
  std::string used = bytes_text(used_bytes);
  const std::string limit = bytes_text(limit_bytes);
  if (used.substr(used.rfind(' ')) == limit.substr(limit.rfind(' '))) used.resize(used.rfind(' '));
  return used + "/" + limit;
}

std::string memory_cell(const snapshot::ShareDevice& device) {
  if (!device.memory_limit_bytes) return bytes_text(device.memory_used_bytes) + ", no limit";
  const std::string on_gpu = of_text(device.memory_used_bytes, *device.memory_limit_bytes);
  return device.host_limit_bytes == 0 ? on_gpu
                                      : on_gpu + ", host " + of_text(device.host_used_bytes, device.host_limit_bytes);
}

std::string ceiling_text(const snapshot::ShareDevice& device) {
  if (device.compute_ceiling_ratio >= 1) return "no limit";
  const std::string ceiling = percent_of(device.compute_ceiling_ratio);
  return device.compute_burst_ratio ? ceiling + " (burst " + percent_of(*device.compute_burst_ratio) + ")" : ceiling;
}

// Fits 80 columns, with the changing values first, because a terminal cuts the end.
std::string gpu_line(const snapshot::Gpu& gpu, const Voice& voice) {
  // A GPU that does not answer has no readings: zeros would look like some.
  if (gpu.uuid.empty()) return bold("GPU " + std::to_string(gpu.index) + "  " + gpu.model, voice) + "\n";
  std::string line = "GPU " + std::to_string(gpu.index) + "  " + short_model(gpu.model) + "  " +
                     of_text(gpu.memory_used_bytes, gpu.memory_total_bytes);
  if (gpu.busy_ratio) line += "  busy " + std::to_string(std::lround(*gpu.busy_ratio * 100)) + " %";
  if (gpu.temperature_celsius) line += "  " + std::to_string(*gpu.temperature_celsius) + " C";
  if (gpu.power_mw)
    line += "  " + std::to_string(*gpu.power_mw / 1000) +
            (gpu.power_limit_mw ? "/" + std::to_string(*gpu.power_limit_mw / 1000) : "") + " W";
  // Only a daemon keeps the rest uncommitted. Scripts read this line, so its word stays for one release.
  line += "  commit " + (gpu.memory_uncommitted_bytes
                             ? of_text(gpu.memory_committed_bytes,
                                       saturating_add(gpu.memory_committed_bytes, *gpu.memory_uncommitted_bytes))
                             : bytes_text(gpu.memory_committed_bytes));
  if (voice.format == Format::wide) line += "  " + gpu.uuid + "  " + gpu.pci_bus_id;
  return bold(line, voice) + "\n";
}

std::vector<std::string> share_row(const snapshot::Share& share, const snapshot::ShareDevice& device,
                                   const snapshot::Snapshot& now, bool wide) {
  // Under MPS the ceiling is a part of the SMs, and so is what was had of it.
  const auto had_now = device.sm_held_ratio ? device.sm_held_ratio : device.held_ratio;
  std::vector<std::string> row = {
      "  " + share.name,
      share.owner.empty() ? "uid " + std::to_string(share.owner_uid) : share.owner,
      "\t" + memory_cell(device),
      "\tGPU " + (had_now ? rate_text(ppm_of(*had_now)) : "-") + " of " + ceiling_text(device),
      format_waits(device),
      "\t" + std::to_string(share.processes) + (share.processes == 1 ? " proc" : " procs"),
      format_state(state_on(now, share, device), share.idle_ns) +
          (is_weak(share.level) ? ", level " + share.level : "")};
  // Last, where a narrow terminal may cut it, but for the wide form.
  const bool promised = device.compute_guarantee_ratio > 0 && !share.overcommit && device.had_ratio;
  if (wide || promised) row.push_back(format_promise(share, device));
  if (!wide) return row;
  row.insert(row.end(), {format_class(device), "at most " + bytes_text(device.memory_peak_bytes),
                         "pids " + format_pids(now, share.name), "level " + share.level});
  return row;
}

std::string shares_on(const NodeSnapshot& snapshot, const std::string& uuid, const Voice& voice) {
  std::vector<std::vector<std::string>> rows;
  for (const snapshot::Share& share : snapshot.now.shares)
    for (const snapshot::ShareDevice& device : share.devices)
      if (device.uuid == uuid) rows.push_back(share_row(share, device, snapshot.now, voice.format == Format::wide));
  return table(rows, voice, false);
}

std::string heading(const NodeSnapshot& snapshot, const Voice& voice) {
  if (!snapshot.no_gpus.empty()) return snapshot.no_gpus + "\n";
  const snapshot::Node& node = snapshot.now.node;
  const std::size_t gpus = snapshot.now.gpus.size();
  std::string line = "driver " + node.driver_version + ", " + std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs") +
                     (snapshot.daemon ? ", headgated" : ", no daemon");
  if (is_weak(node.level)) line += ", " + warning("level " + node.level, voice);
  if (const std::string others = format_others(snapshot.now); !others.empty()) line += ", " + others;
  if (node.unattended_processes > 0)
    line += ", " + warning(std::to_string(node.unattended_processes) + " outside every share", voice);
  return line + caveats(snapshot.now, voice) + "\n";
}

// Lists shares on GPUs that this node does not have (made on a simulated node, or the card is gone).
std::string elsewhere(const NodeSnapshot& snapshot, const Voice& voice) {
  std::vector<std::string> uuids;
  for (const snapshot::Share& share : snapshot.now.shares)
    for (const snapshot::ShareDevice& device : share.devices)
      if (find_gpu(snapshot.now, device.uuid) == nullptr && std::ranges::find(uuids, device.uuid) == uuids.end())
        uuids.push_back(device.uuid);
  std::string text;
  const std::string why = snapshot.now.node.simulated
                              ? "  not a GPU of this node, or it does not answer"
                              : "  not a GPU of this node, or it does not answer (simulated ones: --sim)";
  for (const auto& uuid : uuids) text += bold(uuid + why, voice) + "\n" + shares_on(snapshot, uuid, voice);
  return text;
}

constexpr std::string_view kGpuFields =
    "index uuid model pci_bus_id memory_total_bytes memory_used_bytes memory_free_bytes memory_reserved_bytes "
    "busy_ratio? temperature_celsius? power_mw? power_limit_mw?";
constexpr std::string_view kStatusFields =
    "uuid memory_limit_bytes host_limit_bytes host_used_bytes memory_used_bytes memory_residual_bytes "
    "memory_peak_bytes memory_orphaned_bytes=memory_draining_bytes allocation_refusals=refusals compute_ceiling_ratio "
    "compute_burst_ratio metered held_ns held_age_ns estimated_ns neighbours_ns copy_ns throttled_ns waited_ceiling_ns "
    "waited_turn_ns waited_work_ns waited_pause_ns held_ratio sm_held_ratio throttled_ratio compute_guarantee_ratio "
    "had_ratio wanted_ratio short_ratio short_cause";

Result<Shown> status_view(const NodeSnapshot& snapshot, const Voice& voice, bool heading) {
  Shown shown;
  if (shown.trouble = nothing_to_show(snapshot.no_gpus, snapshot.now, "status"); shown.trouble)
    if (voice.format != Format::json) return std::unexpected(*shown.trouble);
  if (voice.format == Format::json) shown.text = status_json(snapshot);
  else if (is_table(voice.format)) shown.text = status_text(snapshot, voice);
  else {
    const Origin origin = origin_of(snapshot.now);
    if (voice.format == Format::jsonl)
      shown.text = TRY(lines(records_of("headgate.gpu/v1", snapshot.now.gpus), origin, voice, heading));
    shown.text += TRY(lines(records_of("headgate.share/v1", snapshot.now.shares), origin, voice, heading));
  }
  return shown;
}

Result<int> status_command(const Call& call) { return show_view(call, TRY(choose_source(call)), status_view, true); }

}  // namespace

std::string status_text(const NodeSnapshot& snapshot, const Voice& voice) {
  std::string text = heading(snapshot, voice);
  for (const snapshot::Gpu& gpu : snapshot.now.gpus) {
    text += gpu_line(gpu, voice);
    const std::string shares = shares_on(snapshot, gpu.uuid, voice);
    const bool others = !format_others(snapshot.now).empty();
    if (shares.empty() && gpu.uuid.empty()) continue;  // its UUID is unknown, so its shares are listed below
    text += !shares.empty() ? shares : others ? "  no shares of yours\n" : "  no shares\n";
  }
  return text + elsewhere(snapshot, voice) + waiting_text(snapshot.now, voice);
}

std::string status_json(const NodeSnapshot& snapshot) {
  const snapshot::Node& node = snapshot.now.node;
  Json json = {{"schema", "headgate.status/v1"},
               {"simulated", node.simulated},
               {"level", node.level},
               {"daemon", snapshot.daemon}};
  json["driver_version"] = snapshot.no_gpus.empty() ? Json(node.driver_version) : Json();
  json["gpus"] = Json::array();
  for (const Json& gpu : parse_json(snapshot::to_json(snapshot.now.gpus)))
    json["gpus"].push_back(picked(gpu, kGpuFields));
  json["shares"] = Json::array();
  for (const Json& share : parse_json(snapshot::to_json(snapshot.now.shares))) {
    Json one = picked(share, "name level state owner_uid processes");
    one["devices"] = Json::array();
    if (share["problem"] != "") one["problem"] = share["problem"];
    for (const Json& device : share["devices"]) one["devices"].push_back(picked(device, kStatusFields));
    json["shares"].push_back(one);
  }
  return pretty_json(json);
}

Commands status_commands() {
  return {plain_command(kLook, "status", "show each GPU and each share (also: headgate without a command)",
                        status_command, Reads::sound, [](Options& options) {
                          options.simulated();
                          options.interval("time over which rates are measured", "100ms");
                          options.watch();
                          options.lists();
                        })};
}

}  // namespace headgate::cli
