// A compute limit may be as low as one likes; what a very low one does to long kernels surprises who has not met it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/term/output.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

inline constexpr double kLowCeiling = 0.05;  // of a GPU's time

// What to say of the lowest ceiling of a share's GPUs; empty where it is kLowCeiling or more. Pure.
[[nodiscard]] std::optional<std::string> low_ceiling_remark(const std::vector<double>& ceiling_ratios);
// Says it where remarks are wanted.
void remark_on_low_ceiling(const std::vector<double>& ceiling_ratios, const Voice& voice);
void remark_on_low_ceiling(const snapshot::Share& share, const Voice& voice);

}  // namespace headgate::cli
