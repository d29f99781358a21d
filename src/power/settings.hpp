// Settings of one GPU in the driver's units, and the commands that apply them. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "power/command.hpp"

namespace headgate::power {

// Empty fields are not set.
struct Settings {
  std::optional<std::uint32_t> power_limit_mw;
  std::optional<bool> persistence;
  std::optional<ClockRange> gpu_clocks, mem_clocks;  // {0, 0}: not locked
  std::optional<std::uint32_t> compute_mode;         // 0, 2 or 3, as NVML numbers them
  std::optional<std::uint32_t> time_slice;           // 0 default, 1 short, 2 medium, 3 long
  friend bool operator==(const Settings&, const Settings&) = default;

  [[nodiscard]] bool empty() const { return *this == Settings{}; }
};

// Returns the settings of `from`, except for controls that `named` has.
[[nodiscard]] Settings without(Settings from, const Settings& named);
// For controls that both have, takes the value from `by`.
void replace_named(Settings& in, const Settings& by);
// Adds the controls of `more` that `to` lacks.
void add_missing(Settings& to, const Settings& more);
// Returns settings that have the controls written by the command, with any value.
[[nodiscard]] Settings named_by(const Command& command);

using SettingsByGpu = std::map<std::string, Settings>;  // by UUID

// Returns the commands in the order to run them: persistence first, so that the driver keeps what is set after it.
[[nodiscard]] std::vector<Command> commands_to_apply(const Settings& settings);
// Persistence last, for the same reason. Minimum and maximum clock are one command, so they never cross.
[[nodiscard]] std::vector<Command> commands_to_restore(const Settings& saved);
// Returns true if the command writes a control that the settings have.
[[nodiscard]] bool touches(const Settings& settings, const Command& command);

// The controls in the settings with their values as shown to users: {"power limit", "200 W"}. Unlocked clocks: "none".
struct Control {
  std::string name, value;
  friend bool operator==(const Control&, const Control&) = default;
};
[[nodiscard]] std::vector<Control> controls_of(const Settings& settings);
// Returns the name of the first control that both have; nothing if there is none.
[[nodiscard]] std::optional<std::string> common_control(const Settings& a, const Settings& b);

}  // namespace headgate::power
