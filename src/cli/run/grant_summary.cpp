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
  const auto name_of = [&](const snapshot::ShareDevice& device) {
    const auto* gpu = find_gpu(snapshot, device.uuid);
    return gpu == nullptr ? format_gpu(snapshot, device.uuid) : snapshot::gpu_name(*gpu);
  };
  std::string text = "share " + share.name + " on " + joined(share.devices, ", ", name_of) + ": ";
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

std::optional<std::string> low_ceiling_remark(const std::vector<double>& ceiling_ratios) {
  if (ceiling_ratios.empty()) return std::nullopt;
  const double lowest = std::ranges::min(ceiling_ratios);
  if (lowest <= 0 || lowest >= kLowCeiling) return std::nullopt;
  constexpr double kKernelNs = 10e6;
  const double waits_ns = std::min(kKernelNs / lowest - kKernelNs, 1e18);
  return "a compute limit of " + percent_of(lowest) + " is low: after a kernel of 10 ms the next launch waits " +
         duration_text(static_cast<std::uint64_t>(waits_ns)) + ", after longer ones longer";
}

void remark_on_low_ceiling(const std::vector<double>& ceiling_ratios, const Voice& voice) {
  if (!voice.talk) return;
  if (const auto remark = low_ceiling_remark(ceiling_ratios)) say(*remark);
}

void remark_on_low_ceiling(const snapshot::Share& share, const Voice& voice) {
  std::vector<double> ratios;
  for (const auto& device : share.devices) ratios.push_back(device.compute_ceiling_ratio);
  remark_on_low_ceiling(ratios, voice);
}

}  // namespace headgate::cli
