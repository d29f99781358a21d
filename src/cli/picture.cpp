// What the views have in common.
#include "cli/views.hpp"

#include <algorithm>

namespace headgate::cli {

std::string state_of(const Share& share) {
  if (share.paused) return "paused";
  if (share.draining) return "draining";
  if (share.processes.empty()) return share.attended ? "idle" : "empty";
  const auto any = [&](auto&& test) { return std::ranges::any_of(share.devices, test); };
  if (any([](const ShareDevice& d) { return d.memory_limit_bytes && d.memory_used_bytes >= *d.memory_limit_bytes; }))
    return "full";
  if (any([](const ShareDevice& d) { return d.throttled_ppm.value_or(0) > 10'000; })) return "throttled";
  if (std::ranges::all_of(share.devices, [](const ShareDevice& d) { return d.held_ppm && *d.held_ppm == 0; }))
    return "idle";
  return "ok";
}

std::string gpu_name(const Picture& picture, const std::string& uuid) {
  if (picture.gpus) {
    for (const Gpu& gpu : picture.gpus->list) {
      if (gpu.uuid == uuid) return "GPU " + std::to_string(gpu.index);
    }
  }
  return uuid.substr(0, 12);
}

}  // namespace headgate::cli
