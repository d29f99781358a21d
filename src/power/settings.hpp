// Settings of one GPU in the driver's own units, and the commands that make them. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "power/command.hpp"

namespace headgate::power {

// What is empty is not set.
struct Settings {
  std::optional<std::uint32_t> power_limit_mw;
  std::optional<bool> persistence;
  std::optional<ClockRange> gpu_clocks, mem_clocks;  // {0, 0}: not locked
  std::optional<std::uint32_t> compute_mode;         // 0, 2 or 3, as NVML numbers them
  std::optional<std::uint32_t> time_slice;           // 0 default, 1 short, 2 medium, 3 long
  friend bool operator==(const Settings&, const Settings&) = default;

  [[nodiscard]] bool empty() const { return *this == Settings{}; }
};

// The settings of `from` whose controls `named` does not name.
[[nodiscard]] Settings without(Settings from, const Settings& named);
// Gives the controls that both name the values of `by`.
void replace_named(Settings& in, const Settings& by);
// Adds the controls of `more` that `to` does not name.
void add_missing(Settings& to, const Settings& more);
// Names the controls that the command writes, with any value.
[[nodiscard]] Settings named_by(const Command& command);

using SettingsByGpu = std::map<std::string, Settings>;  // by UUID

// In the order in which they are to be done: persistence first, so that nothing set after it is forgotten.
[[nodiscard]] std::vector<Command> commands_to_apply(const Settings& settings);
// Persistence last, for the same reason. Least and greatest clock are one command: they never cross.
[[nodiscard]] std::vector<Command> commands_to_restore(const Settings& saved);
// Whether the command writes a control that the settings name.
[[nodiscard]] bool touches(const Settings& settings, const Command& command);

// The controls that the settings name, with their values as a person reads them: {"power limit", "200 W"}. Clocks that
// are not locked: "none".
struct Control {
  std::string name, value;
  friend bool operator==(const Control&, const Control&) = default;
};
[[nodiscard]] std::vector<Control> controls_of(const Settings& settings);
// Whether both name a control; then the name of the first such one.
[[nodiscard]] std::optional<std::string> common_control(const Settings& a, const Settings& b);

}  // namespace headgate::power
