#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "cli/views.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

// Processes that NVML sees on a GPU and that sit in no share we can read.
std::vector<std::uint32_t> strangers(const Picture& picture, const Gpu& gpu) {
  std::vector<std::uint32_t> all;
  for (const std::uint32_t pid : gpu.pids) {
    const bool held = std::ranges::any_of(picture.shares.list, [pid](const Share& share) {
      return std::ranges::any_of(share.processes, [pid](const ShareProcess& process) { return process.pid == pid; });
    });
    if (!held) all.push_back(pid);
  }
  return all;
}

}  // namespace

std::string ps_text(const Picture& picture, const Voice& voice) {
  std::vector<std::vector<std::string>> rows = {
      {"SHARE", "GPU", "\tPID", "COMMAND", "\tMEM", "\tSHARE'S GPU", "LEVEL", "STATE"}};
  for (const Share& share : picture.shares.list) {
    for (const ShareProcess& process : share.processes) {
      for (std::size_t i = 0; i < share.devices.size(); ++i) {
        rows.push_back({share.name, gpu_name(picture, share.devices[i].uuid), "\t" + std::to_string(process.pid),
                        process.command, "\t" + bytes_text(process.held_bytes[i]),
                        "\t" + (share.devices[i].held_ppm ? rate_text(*share.devices[i].held_ppm) : "-"),
                        level_text(share.level), state_of(share)});
      }
    }
  }
  if (picture.gpus) {
    for (const Gpu& gpu : picture.gpus->list) {
      for (const std::uint32_t pid : strangers(picture, gpu))
        rows.push_back({"-", "GPU " + std::to_string(gpu.index), "\t" + std::to_string(pid), "-", "\t-", "\t-",
                        "observe", "no share"});
    }
  }
  std::string text = rows.size() == 1 ? "no process is in a share\n" : table(rows, voice);
  if (picture.gpus && picture.gpus->simulated) text = warning("SIMULATED", voice) + "\n" + text;
  return text;
}

std::string ps_json(const Picture& picture) {
  Json json = {{"schema", "headgate.ps/v1"},
               {"simulated", picture.gpus && picture.gpus->simulated},
               {"processes", Json::array()}};
  for (const Share& share : picture.shares.list) {
    for (const ShareProcess& process : share.processes) {
      Json one = {{"share", share.name},
                  {"pid", process.pid},
                  {"command", process.command},
                  {"level", level_text(share.level)},
                  {"devices", Json::array()}};
      for (std::size_t i = 0; i < share.devices.size(); ++i) {
        Json device = {{"uuid", share.devices[i].uuid}, {"memory_used_bytes", process.held_bytes[i]}};
        device["share_held_ratio"] = share.devices[i].held_ppm ? Json(*share.devices[i].held_ppm / 1e6) : Json();
        one["devices"].push_back(device);
      }
      json["processes"].push_back(one);
    }
  }
  if (picture.gpus) {
    for (const Gpu& gpu : picture.gpus->list) {
      for (const std::uint32_t pid : strangers(picture, gpu)) {
        json["processes"].push_back({{"share", nullptr},
                                     {"pid", pid},
                                     {"command", nullptr},
                                     {"level", "observe"},
                                     {"devices", Json::array({Json{{"uuid", gpu.uuid}}})}});
      }
    }
  }
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace headgate::cli
