// Shows power and clocks on a terminal. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/power/power_state.hpp"
#include "cli/term/output.hpp"

namespace headgate::cli {

// Returns a line for each GPU, followed by remarks: which lease holds a control, what throttles a GPU, which settings
// the driver does not enforce as requested.
[[nodiscard]] std::string power_status_text(const PowerState& state, std::uint64_t now_unix_ns, const Voice& voice);

[[nodiscard]] std::string power_profiles_text(const std::vector<PowerProfile>& profiles, const Voice& voice);

// Returns the changes made to each GPU. `state` supplies the GPUs' names; before or after the change will do.
[[nodiscard]] std::string power_changes_text(const std::vector<GpuChanges>& changes, const PowerState& state,
                                             const Voice& voice);

// Returns "GPU 0 (L40S)", or the start of the UUID if the GPU is not in `state`.
[[nodiscard]] std::string name_of_gpu(const PowerState& state, const std::string& uuid);

// Formats the time until `ends_at_s`: "ends in 1h58m"; "ends now".
[[nodiscard]] std::string format_end(std::int64_t ends_at_s, std::uint64_t now_unix_ns);

}  // namespace headgate::cli
