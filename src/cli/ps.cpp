#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "cli/names.hpp"
#include "cli/views.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

std::uint64_t bytes_on(const snapshot::Process& process, const std::string& uuid) {
  const auto found = std::ranges::find(process.devices, uuid, &snapshot::ProcessDevice::uuid);
  return found == process.devices.end() ? 0 : found->ledger_bytes;
}

// Calls each(share, process) for every process of every share, each(gpu, process) for those that use a GPU outside them all.
template <typename Inside, typename Outside>
void each_process(const snapshot::Snapshot& now, Inside&& inside, Outside&& outside) {
  for (const auto& share : now.shares) {
    for (const auto& process : now.processes) {
      if (process.share == share.name) inside(share, process);
    }
  }
  for (const auto& gpu : now.gpus) {
    for (const auto& process : now.processes) {
      if (!process.share.empty()) continue;
      if (std::ranges::find(process.devices, gpu.uuid, &snapshot::ProcessDevice::uuid) != process.devices.end())
        outside(gpu, process);
    }
  }
}

}  // namespace

std::string ps_text(const Picture& picture, const Voice& voice) {
  std::vector<std::vector<std::string>> rows = {
      {"SHARE", "GPU", "\tPID", "COMMAND", "\tMEM", "\tSHARE'S GPU", "LEVEL", "STATE"}};
  each_process(
      picture.now,
      [&](const snapshot::Share& share, const snapshot::Process& process) {
        for (const auto& device : share.devices) {
          rows.push_back({share.name, gpu_words(picture.now, device.uuid), "\t" + std::to_string(shown_pid(process)),
                          process.command, "\t" + bytes_text(bytes_on(process, device.uuid)),
                          "\t" + (device.held_ratio ? rate_text(ppm_of(*device.held_ratio)) : "-"), share.level,
                          share.state});
        }
      },
      [&](const snapshot::Gpu& gpu, const snapshot::Process& process) {
        rows.push_back({"-", "GPU " + std::to_string(gpu.index), "\t" + std::to_string(process.pid), "-", "\t-", "\t-",
                        "observe", "no share"});
      });
  std::string text = rows.size() == 1 ? "no process is in a share\n" : table(rows, voice);
  if (picture.now.node.simulated) text = warning("SIMULATED", voice) + "\n" + text;
  return text;
}

std::string ps_json(const Picture& picture) {
  Json json = {{"schema", "headgate.ps/v1"}, {"simulated", picture.now.node.simulated}, {"processes", Json::array()}};
  each_process(
      picture.now,
      [&](const snapshot::Share& share, const snapshot::Process& process) {
        Json one = {{"share", share.name},
                    {"pid", shown_pid(process)},
                    {"command", process.command},
                    {"level", share.level},
                    {"devices", Json::array()}};
        for (const auto& device : share.devices) {
          one["devices"].push_back({{"uuid", device.uuid},
                                    {"memory_used_bytes", bytes_on(process, device.uuid)},
                                    {"share_held_ratio", device.held_ratio ? Json(*device.held_ratio) : Json()}});
        }
        json["processes"].push_back(one);
      },
      [&](const snapshot::Gpu& gpu, const snapshot::Process& process) {
        json["processes"].push_back({{"share", nullptr},
                                     {"pid", process.pid},
                                     {"command", nullptr},
                                     {"level", "observe"},
                                     {"devices", Json::array({Json{{"uuid", gpu.uuid}}})}});
      });
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace headgate::cli
