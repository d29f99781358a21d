// Formats what `headgate run` says of a share: its limits before the run, refusals after it, and that its compute limit
// is very low.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/term/output.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// "share train on GPU 0 (H200): 8.0 GiB, 50 % promised, at most 80 %, SIMULATED".
[[nodiscard]] std::string format_granted(const snapshot::Snapshot& snapshot, const snapshot::Share& share);

// "share train was refused memory 3 times meanwhile: headgate why train"; empty if there were no refusals.
[[nodiscard]] std::string format_refused(const snapshot::Share& before, const snapshot::Share& after);

// Such limits are allowed, but long kernels behave in ways that surprise new users.
inline constexpr double kLowCeiling = 0.05;  // fraction of a GPU's time

// Returns a remark on the lowest ceiling of the share's GPUs; nothing if it is at least kLowCeiling. Pure.
[[nodiscard]] std::optional<std::string> low_ceiling_remark(const std::vector<double>& ceiling_ratios);
// Prints the remark if remarks are on.
void remark_on_low_ceiling(const std::vector<double>& ceiling_ratios, const Voice& voice);
void remark_on_low_ceiling(const snapshot::Share& share, const Voice& voice);

}  // namespace headgate::cli
