// Reads the daemon's replies about power and clocks, and shows them on a terminal. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "cli/term/output.hpp"

namespace headgate::cli {

using PowerJson = nlohmann::ordered_json;
using ClockSpan = std::pair<std::uint32_t, std::uint32_t>;  // MHz, minimum and maximum; {0, 0}: not locked

// Values of an object. One that is missing, or of another type, is empty.
[[nodiscard]] std::string text_at(const PowerJson& json, const char* key);
[[nodiscard]] std::optional<std::uint64_t> number_at(const PowerJson& json, const char* key);
[[nodiscard]] std::optional<bool> flag_at(const PowerJson& json, const char* key);
[[nodiscard]] const PowerJson& list_at(const PowerJson& json, const char* key);
[[nodiscard]] std::vector<std::string> texts_at(const PowerJson& json, const char* key);
[[nodiscard]] std::optional<ClockSpan> clocks_at(const PowerJson& json, const char* key);

// One change to a GPU, made or proposed.
struct PowerChange {
  std::string control, from, to;  // "power limit", "350 W", "200 W"; from: "" if unknown
};
struct GpuChanges {
  std::string uuid;
  std::vector<PowerChange> changes;
  std::optional<std::string> error;
};

// The settings that a lease made on each GPU, and the former ones.
struct LeaseMade {
  std::string id;
  std::int64_t ends_at_s = 0;
  std::uint32_t holder_pid = 0;
  std::vector<GpuChanges> gpus;
};

// Returns the reply if it is an object with a list of GPUs, or a list of profiles. Errors, here and below: failed,
// where the daemon's answer is not understood.
[[nodiscard]] Result<PowerJson> power_state_from(const std::string& json);
[[nodiscard]] Result<PowerJson> power_profiles_from(const std::string& json);
[[nodiscard]] Result<std::vector<GpuChanges>> power_changes_from(const std::string& json);
[[nodiscard]] Result<LeaseMade> lease_from(const std::string& json);

// Formats settings of a profile: "power limit 80%, persistence mode on".
[[nodiscard]] std::string format_settings(const PowerJson& settings);
// Formats milliwatts: "200 W", "99.9 W".
[[nodiscard]] std::string watts(std::uint64_t milliwatts);
// Formats locked clocks as the daemon does: "210 to 1200 MHz", "1200 MHz", "none".
[[nodiscard]] std::string format_clocks(const ClockSpan& clocks);

// Returns a line for each GPU, followed by remarks: which lease holds a control, what throttles a GPU, which settings
// the driver does not enforce as requested.
[[nodiscard]] std::string power_status_text(const PowerJson& state, std::uint64_t now_unix_ns, const Voice& voice);

[[nodiscard]] std::string power_profiles_text(const PowerJson& profiles, const Voice& voice);

// Returns the changes made to each GPU. `state` supplies the GPUs' names; before or after the change will do.
[[nodiscard]] std::string power_changes_text(const std::vector<GpuChanges>& changes, const PowerJson& state,
                                             const Voice& voice);

// Returns "GPU 0 (L40S)", or the start of the UUID if the GPU is not in `state`.
[[nodiscard]] std::string name_of_gpu(const PowerJson& state, const std::string& uuid);

// Formats the time until `ends_at_s`: "ends in 1h58m"; "ends now".
[[nodiscard]] std::string format_end(std::int64_t ends_at_s, std::uint64_t now_unix_ns);

}  // namespace headgate::cli
