#include "cli/run/low_ceiling.hpp"

#include <algorithm>

#include "base/units.hpp"
#include "cli/view/names.hpp"

namespace headgate::cli {

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
