#include "cli/run/grant_summary.hpp"

#include <algorithm>

#include "base/saturating_math.hpp"
#include "base/units.hpp"
#include "cli/view/names.hpp"

namespace headgate::cli {
namespace {

std::string format_compute(const snapshot::ShareDevice& device) {
  const double promised = device.compute_guarantee_ratio;
  const double ceiling = std::max(device.compute_ceiling_ratio, device.compute_burst_ratio.value_or(0));
  if (promised > 0 && promised < ceiling)
    return percent_of(promised) + " promised" + (ceiling < 1 ? ", at most " + percent_of(ceiling) : "");
  return ceiling < 1 ? percent_of(ceiling) : "no compute limit";
}

std::uint64_t refusals_of(const snapshot::Share& share) {
  std::uint64_t all = 0;
  for (const auto& device : share.devices) all = saturating_add(all, device.refusals);
  return all;
}

}  // namespace

std::string format_granted(const snapshot::Snapshot& snapshot, const snapshot::Share& share) {
  std::string where;
  for (const auto& device : share.devices) {
    const auto gpu = std::ranges::find(snapshot.gpus, device.uuid, &snapshot::Gpu::uuid);
    where += (where.empty() ? "" : ", ") +
             (gpu == snapshot.gpus.end() ? format_gpu(snapshot, device.uuid) : snapshot::gpu_name(*gpu));
  }
  std::string text = "share " + share.name + " on " + where + ": ";
  if (!share.devices.empty()) {
    const auto& device = share.devices.front();
    text += (share.devices.size() > 1 ? "each " : "") +
            (device.memory_limit_bytes ? bytes_text(*device.memory_limit_bytes) : std::string("no memory limit")) +
            (device.host_limit_bytes > 0 ? " and " + bytes_text(device.host_limit_bytes) + " of host memory" : "") +
            ", " + format_compute(device);
  }
  return text + (is_weak(share.level) ? ", level " + share.level : "") + (snapshot.node.simulated ? ", SIMULATED" : "");
}

std::string format_refused(const snapshot::Share& before, const snapshot::Share& after) {
  const std::uint64_t then = refusals_of(before), now = refusals_of(after);
  if (now <= then) return {};
  return "share " + after.name + " was refused memory " +
         (now - then == 1 ? "once" : std::to_string(now - then) + " times") + " meanwhile: headgate why " + after.name;
}

}  // namespace headgate::cli
