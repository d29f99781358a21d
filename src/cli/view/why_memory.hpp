// What `headgate why` says of a share's memory: why it was refused, and what helps. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "cli/view/views.hpp"

namespace headgate::cli {

// The node's GPU with that UUID; null if it has none.
[[nodiscard]] const snapshot::Gpu* gpu_of(const NodeSnapshot& snapshot, const std::string& uuid);
// "once", "3 times".
[[nodiscard]] std::string times(std::uint64_t count);
// The last refusal, its reason and what helps; without one, what is in use.
[[nodiscard]] std::string refusal_text(const NodeSnapshot& snapshot, const snapshot::Share& share,
                                       const snapshot::ShareDevice& device);
// The host memory used instead of the GPU's; empty if the share may use none.
[[nodiscard]] std::string host_text(const snapshot::ShareDevice& device);
// Why the driver, which could, does not hold the share's memory too; empty: it does, or it cannot.
[[nodiscard]] std::string driver_problem_text(const snapshot::Share& share);
// The driver's own limit of the share's memory; empty if it has none.
[[nodiscard]] std::string driver_limit_text(const snapshot::ShareDevice& device);

}  // namespace headgate::cli
