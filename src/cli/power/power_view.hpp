// Power and clocks as a person reads them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/power/power_state.hpp"
#include "cli/term/output.hpp"

namespace headgate::cli {

// A line for each GPU, and below them what a number does not say: which lease holds a control, what slows a GPU down,
// what the driver does not enforce as it was asked.
[[nodiscard]] std::string power_status_text(const PowerState& state, std::uint64_t now_unix_ns, const Voice& voice);

[[nodiscard]] std::string power_profiles_text(const std::vector<PowerProfile>& profiles, const Voice& voice);

// What a write changed of each GPU. `state`: of before or after it, for the GPUs' names.
[[nodiscard]] std::string power_changes_text(const std::vector<GpuChanges>& changes, const PowerState& state,
                                             const Voice& voice);

// "GPU 0 (L40S)", or the beginning of the UUID of one that is not in `state`.
[[nodiscard]] std::string name_of_gpu(const PowerState& state, const std::string& uuid);

// How long until `ends_at_s`: "ends in 1h58m"; "ends now".
[[nodiscard]] std::string format_end(std::int64_t ends_at_s, std::uint64_t now_unix_ns);

}  // namespace headgate::cli
