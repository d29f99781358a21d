// Warns about very low compute limits: they are allowed, but long kernels behave in ways that surprise new users.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/term/output.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

inline constexpr double kLowCeiling = 0.05;  // fraction of a GPU's time

// Returns a remark on the lowest ceiling of the share's GPUs; nothing if it is at least kLowCeiling. Pure.
[[nodiscard]] std::optional<std::string> low_ceiling_remark(const std::vector<double>& ceiling_ratios);
// Prints the remark if remarks are on.
void remark_on_low_ceiling(const std::vector<double>& ceiling_ratios, const Voice& voice);
void remark_on_low_ceiling(const snapshot::Share& share, const Voice& voice);

}  // namespace headgate::cli
