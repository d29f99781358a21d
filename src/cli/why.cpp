#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "cli/views.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

const Gpu* gpu_of(const Picture& picture, const std::string& uuid) {
  if (!picture.gpus) return nullptr;
  const auto found = std::ranges::find(picture.gpus->list, uuid, &Gpu::uuid);
  return found == picture.gpus->list.end() ? nullptr : &*found;
}

std::string times(std::uint64_t count) { return count == 1 ? "once" : std::to_string(count) + " times"; }

std::string refusal_text(const Picture& picture, const ShareDevice& device) {
  if (device.refusals == 0)
    return "  memory: nothing was refused; " + bytes_text(device.memory_used_bytes) + " in use" +
           (device.memory_residual_bytes > 0
                ? ", " + bytes_text(device.memory_residual_bytes) + " of it contexts and code"
                : "") +
           "\n    allocated at most " + bytes_text(device.memory_peak_bytes) +
           (device.memory_limit_bytes ? ", limit " + bytes_text(*device.memory_limit_bytes) : ", no limit") + "\n";
  const std::uint64_t limit = device.memory_limit_bytes.value_or(0);
  std::string text = "  memory: refused " + times(device.refusals) + ", last at " + clock_text(device.last_refusal_ns) +
                     ": process " + std::to_string(device.last_refusal_pid) + " asked for " +
                     exact_bytes_text(device.last_refusal_bytes) + "\n";
  const std::uint64_t room = limit > device.last_refusal_used_bytes ? limit - device.last_refusal_used_bytes : 0;
  if (room >= device.last_refusal_bytes) {
    // The allocations alone left room: what was missing is measured, not allocated.
    text += "    reason: the share's limit of " + bytes_text(limit) + "; " +
            bytes_text(device.last_refusal_used_bytes) +
            " were allocated,\n    and contexts and code of its processes held more than " +
            bytes_text(room - device.last_refusal_bytes) +
            "\n    what helps: a smaller batch, fewer processes, or a larger share\n";
    return text;
  }
  text += "    reason: the share's limit of " + bytes_text(limit) + ": " + bytes_text(device.last_refusal_used_bytes) +
          " in use, " + bytes_text(room) + " left\n";
  if (const Gpu* gpu = gpu_of(picture, device.uuid))
    text += "    not caused by neighbours: the card has " + bytes_text(gpu->memory_free_bytes) + " free now\n";
  const std::uint64_t needed = device.last_refusal_used_bytes + device.last_refusal_bytes;
  text += "    what helps: a smaller batch, or a share of at least " + exact_bytes_text(needed) + "\n";
  return text;
}

std::string throttle_text(const ShareDevice& device) {
  if (device.compute_ceiling_ppm == ledger::kWholeGpu)
    return "  compute: no limit; the GPU was held for " + duration_text(device.held_ns) + "\n";
  std::string text = "  compute: limit " + percent_text(device.compute_ceiling_ppm) + "; the GPU was held for " +
                     duration_text(device.held_ns);
  if (device.estimated_ns > 0) text += " (" + duration_text(device.estimated_ns) + " of it estimated)";
  if (device.throttled_launches == 0) return text + "; no launch had to wait\n";
  text += "\n    " + std::to_string(device.throttled_launches) +
          (device.throttled_launches == 1 ? " launch" : " launches") + " waited " + duration_text(device.throttled_ns) +
          " in all, the last at " + clock_text(device.last_throttle_ns) + "\n";
  text += "    reason: the share had used its " + percent_text(device.compute_ceiling_ppm) +
          (device.compute_burst_ppm == 0
               ? "; not caused by neighbours\n"
               : ", or " + percent_text(device.compute_burst_ppm) + " while no other share had work on the GPU\n");
  if (device.passed_in_debt > 0) {
    text += "    " + std::to_string(device.passed_in_debt) +
            " of them went on after 20 ms all the same: earlier work was unfinished\n";
  }
  return text;
}

}  // namespace

std::string why_text(const Picture& picture, const std::vector<Share>& shares, const Voice& voice) {
  std::string text;
  for (const Share& share : shares) {
    for (const ShareDevice& device : share.devices) {
      const bool simulated = picture.gpus && picture.gpus->simulated && gpu_of(picture, device.uuid) != nullptr;
      text += bold("share " + share.name + " on " + gpu_name(picture, device.uuid) + ", level " +
                       level_text(share.level) + (simulated ? ", SIMULATED" : ""),
                   voice) +
              "\n";
      text += refusal_text(picture, device) + throttle_text(device);
    }
  }
  return text.empty() ? "there are no shares\n" : text;
}

std::string why_json(const Picture& picture, const std::vector<Share>& shares) {
  Json json = {
      {"schema", "headgate.why/v1"}, {"simulated", picture.gpus && picture.gpus->simulated}, {"shares", Json::array()}};
  for (const Share& share : shares) {
    Json one = {{"name", share.name}, {"level", level_text(share.level)}, {"devices", Json::array()}};
    for (const ShareDevice& device : share.devices) {
      Json d = {{"uuid", device.uuid}};
      d["memory_limit_bytes"] = device.memory_limit_bytes ? Json(*device.memory_limit_bytes) : Json();
      d["allocation_refusals"] = device.refusals;
      d["last_refusal"] = device.refusals == 0 ? Json()
                                               : Json{{"reason", "limit"},
                                                      {"asked_bytes", device.last_refusal_bytes},
                                                      {"used_bytes", device.last_refusal_used_bytes},
                                                      {"pid", device.last_refusal_pid},
                                                      {"realtime_ns", device.last_refusal_ns}};
      d["compute_ceiling_ratio"] = device.compute_ceiling_ppm / 1e6;
      d["compute_burst_ratio"] = device.compute_burst_ppm == 0 ? Json() : Json(device.compute_burst_ppm / 1e6);
      d["held_ns"] = device.held_ns;
      d["estimated_ns"] = device.estimated_ns;
      d["throttled_ns"] = device.throttled_ns;
      d["throttled_launches"] = device.throttled_launches;
      d["passed_in_debt"] = device.passed_in_debt;
      d["last_throttle_realtime_ns"] = device.throttled_launches == 0 ? Json() : Json(device.last_throttle_ns);
      one["devices"].push_back(d);
    }
    json["shares"].push_back(one);
  }
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace headgate::cli
