#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "cli/views.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

// "15.1/16.0 GiB" where the units are one, "512 MiB/16.0 GiB" where not.
std::string of_text(std::uint64_t used_bytes, std::uint64_t limit_bytes) {
  std::string used = bytes_text(used_bytes);
  const std::string limit = bytes_text(limit_bytes);
  if (used.substr(used.rfind(' ')) == limit.substr(limit.rfind(' '))) used.resize(used.rfind(' '));
  return used + "/" + limit;
}

std::string memory_text(const ShareDevice& device) {
  if (!device.memory_limit_bytes) return bytes_text(device.memory_used_bytes) + ", no limit";
  const std::string on_gpu = of_text(device.memory_used_bytes, *device.memory_limit_bytes);
  return device.host_limit_bytes == 0 ? on_gpu
                                      : on_gpu + ", host " + of_text(device.host_used_bytes, device.host_limit_bytes);
}

std::string ceiling_text(const ShareDevice& device) {
  if (device.compute_ceiling_ppm == ledger::kWholeGpu) return "no limit";
  const std::string ceiling = percent_text(device.compute_ceiling_ppm);
  return device.compute_burst_ppm == 0 ? ceiling : ceiling + " (burst " + percent_text(device.compute_burst_ppm) + ")";
}

std::string gpu_line(const Gpu& gpu, const Voice& voice) {
  std::string line = "GPU " + std::to_string(gpu.index) + "  " + short_model(gpu.model) + "  " +
                     bytes_text(gpu.memory_used_bytes) + " of " + bytes_text(gpu.memory_total_bytes) + " used";
  if (gpu.busy_percent) line += "  busy " + std::to_string(*gpu.busy_percent) + " %";
  if (gpu.temperature_c) line += "  " + std::to_string(*gpu.temperature_c) + " C";
  if (gpu.power_mw) line += "  " + std::to_string(*gpu.power_mw / 1000) + " W";
  return bold(line, voice) + "\n";
}

std::vector<std::string> share_row(const Share& share, const ShareDevice& device) {
  return {"  " + share.name,
          "\t" + memory_text(device),
          "\tGPU " + (device.held_ppm ? rate_text(*device.held_ppm) : "-") + " of " + ceiling_text(device),
          "\twaited " + (device.throttled_ppm ? rate_text(*device.throttled_ppm) : duration_text(device.throttled_ns)),
          "\t" + std::to_string(share.processes.size()) + (share.processes.size() == 1 ? " proc" : " procs"),
          state_of(share) + (share.level == ledger::Level::hook ? "" : ", level " + level_text(share.level))};
}

std::string shares_on(const Picture& picture, const std::string& uuid, const Voice& voice) {
  std::vector<std::vector<std::string>> rows;
  for (const Share& share : picture.shares.list) {
    for (const ShareDevice& device : share.devices) {
      if (device.uuid == uuid) rows.push_back(share_row(share, device));
    }
  }
  Voice plain = voice;
  plain.colour = false;
  return table(rows, plain);
}

// What holds for every share that is shown.
std::string weakest(const Picture& picture) {
  auto level = picture.shares.list.empty() ? ledger::Level::hook : ledger::Level::mig;
  for (const Share& share : picture.shares.list) level = std::min(level, share.level);
  return level_text(level);
}

std::string heading(const Picture& picture, const Voice& voice) {
  if (!picture.gpus) return picture.no_gpus + "\n";
  const Gpus& gpus = *picture.gpus;
  std::string line = "driver " + gpus.driver_version + ", " + std::to_string(gpus.list.size()) +
                     (gpus.list.size() == 1 ? " GPU" : " GPUs") + ", level " + weakest(picture) +
                     (picture.daemon ? ", headgated" : ", no daemon");
  return line + (gpus.simulated ? ", " + warning("SIMULATED", voice) : "") + "\n";
}

// Shares on GPUs that this node does not have (made on a simulated node, or on cards that are gone).
std::string elsewhere(const Picture& picture, const Voice& voice) {
  std::vector<std::string> uuids;
  for (const Share& share : picture.shares.list) {
    for (const ShareDevice& device : share.devices) {
      const bool here =
          picture.gpus && std::ranges::find(picture.gpus->list, device.uuid, &Gpu::uuid) != picture.gpus->list.end();
      if (!here && std::ranges::find(uuids, device.uuid) == uuids.end()) uuids.push_back(device.uuid);
    }
  }
  std::string text;
  for (const auto& uuid : uuids)
    text +=
        bold(uuid + "  not a GPU of this node (simulated ones: --sim)", voice) + "\n" + shares_on(picture, uuid, voice);
  return text;
}

}  // namespace

std::string status_text(const Picture& picture, const Voice& voice) {
  std::string text = heading(picture, voice);
  if (picture.gpus) {
    for (const Gpu& gpu : picture.gpus->list) {
      text += gpu_line(gpu, voice);
      const std::string shares = shares_on(picture, gpu.uuid, voice);
      text += shares.empty() ? "  no shares\n" : shares;
    }
  }
  return text + elsewhere(picture, voice);
}

std::string status_json(const Picture& picture) {
  Json json = {{"schema", "headgate.status/v1"},
               {"simulated", picture.gpus && picture.gpus->simulated},
               {"level", weakest(picture)},
               {"daemon", picture.daemon}};
  json["driver_version"] = picture.gpus ? Json(picture.gpus->driver_version) : Json();
  json["gpus"] = Json::array();
  if (picture.gpus) {
    for (const Gpu& gpu : picture.gpus->list) {
      Json one = {{"index", gpu.index},
                  {"uuid", gpu.uuid},
                  {"model", gpu.model},
                  {"pci_bus_id", gpu.pci_bus_id},
                  {"memory_total_bytes", gpu.memory_total_bytes},
                  {"memory_used_bytes", gpu.memory_used_bytes},
                  {"memory_free_bytes", gpu.memory_free_bytes},
                  {"memory_reserved_bytes", gpu.memory_reserved_bytes}};
      if (gpu.busy_percent) one["busy_ratio"] = *gpu.busy_percent / 100.0;
      if (gpu.temperature_c) one["temperature_celsius"] = *gpu.temperature_c;
      if (gpu.power_mw) one["power_mw"] = *gpu.power_mw;
      if (gpu.power_limit_mw) one["power_limit_mw"] = *gpu.power_limit_mw;
      json["gpus"].push_back(one);
    }
  }
  json["shares"] = Json::array();
  for (const Share& share : picture.shares.list) {
    Json one = {{"name", share.name},           {"level", level_text(share.level)},    {"state", state_of(share)},
                {"owner_uid", share.owner_uid}, {"processes", share.processes.size()}, {"devices", Json::array()}};
    for (const ShareDevice& device : share.devices) {
      Json d = {{"uuid", device.uuid}};
      d["memory_limit_bytes"] = device.memory_limit_bytes ? Json(*device.memory_limit_bytes) : Json();
      d["host_limit_bytes"] = device.host_limit_bytes;
      d["host_used_bytes"] = device.host_used_bytes;
      d["memory_used_bytes"] = device.memory_used_bytes;
      d["memory_residual_bytes"] = device.memory_residual_bytes;
      d["memory_peak_bytes"] = device.memory_peak_bytes;
      d["memory_orphaned_bytes"] = device.memory_orphaned_bytes;
      d["allocation_refusals"] = device.refusals;
      d["compute_ceiling_ratio"] = device.compute_ceiling_ppm / 1e6;
      d["compute_burst_ratio"] = device.compute_burst_ppm == 0 ? Json() : Json(device.compute_burst_ppm / 1e6);
      d["held_ns"] = device.held_ns;
      d["estimated_ns"] = device.estimated_ns;
      d["neighbours_ns"] = device.neighbours_ns;
      d["copy_ns"] = device.copy_ns;
      d["throttled_ns"] = device.throttled_ns;
      d["held_ratio"] = device.held_ppm ? Json(*device.held_ppm / 1e6) : Json();
      d["throttled_ratio"] = device.throttled_ppm ? Json(*device.throttled_ppm / 1e6) : Json();
      one["devices"].push_back(d);
    }
    json["shares"].push_back(one);
  }
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace headgate::cli
