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

// Calls visit(member, bit, name, key, get) for each control: its ControlBits, its name for users, its key in JSON, and
// the operation that reads it. No driver reports locked clocks, so their `get` is the operation that locks them.
template <typename Visit>
void each_control(Visit&& visit) {
  visit(&Settings::power_limit_mw, kPowerLimit, "power limit", "power_limit_mw", Operation::get_power_limit);
  visit(&Settings::persistence, kPersistence, "persistence mode", "persistence", Operation::get_persistence_mode);
  visit(&Settings::gpu_clocks, kGpuClocks, "GPU clocks", "gpu_clocks_mhz", Operation::set_gpu_locked_clocks);
  visit(&Settings::mem_clocks, kMemoryClocks, "memory clocks", "mem_clocks_mhz", Operation::set_mem_locked_clocks);
  visit(&Settings::compute_mode, kComputeMode, "compute mode", "compute_mode", Operation::get_compute_mode);
  visit(&Settings::time_slice, kTimeSlice, "time slice", "time_slice", Operation::get_time_slice);
}

// Returns the settings of `from`, except for controls that `named` has.
[[nodiscard]] Settings without(Settings from, const Settings& named);
// For controls that both have, takes the value from `by`.
void replace_named(Settings& in, const Settings& by);
// Adds the controls of `more` that `to` lacks.
void add_missing(Settings& to, const Settings& more);
// Returns settings in which the controls that the command writes are present. Their values have no meaning.
[[nodiscard]] Settings named_by(const Command& command);

using SettingsByGpu = std::map<std::string, Settings>;  // by UUID

// Returns the commands in the order to run them: persistence first, so that the driver keeps what is set after it.
[[nodiscard]] std::vector<Command> commands_to_apply(const Settings& settings);
// Persistence last, for the same reason. Minimum and maximum clock are one command, so they never cross.
[[nodiscard]] std::vector<Command> commands_to_restore(const Settings& saved);
// Returns true if the command writes a control that the settings have.
[[nodiscard]] bool touches(const Settings& settings, const Command& command);

// Returns the operations that read the controls that `like` has. No driver reports locked clocks.
[[nodiscard]] std::vector<Operation> reads_of(const Settings& like);
// Stores what such an operation read.
void take_reading(Operation read, const Reading& reading, Settings& settings);

// The controls in the settings with their values as shown to users: {"power limit", "200 W"}. Unlocked clocks: "none".
struct Control {
  std::string name, value;
  friend bool operator==(const Control&, const Control&) = default;
};
[[nodiscard]] std::vector<Control> controls_of(const Settings& settings);
// Returns the name of the first control that both have; nothing if there is none.
[[nodiscard]] std::optional<std::string> common_control(const Settings& a, const Settings& b);

}  // namespace headgate::power
