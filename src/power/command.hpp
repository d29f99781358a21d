// A command to one GPU (what to set, reset or read) and its result. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace headgate::power {

struct ClockRange {
  std::uint32_t min_mhz = 0, max_mhz = 0;
  friend bool operator==(const ClockRange&, const ClockRange&) = default;
};

enum class Operation {
  set_persistence_mode,
  set_power_limit,
  set_gpu_locked_clocks,
  set_mem_locked_clocks,
  reset_gpu_locked_clocks,
  reset_mem_locked_clocks,
  reset_locked_clocks,
  set_compute_mode,  // of leases; not on zeusd's wire
  set_time_slice,    // the same
  get_power,
  get_cumulative_energy,
  get_power_limit,
  get_power_limit_constraints,
  get_persistence_mode,
  get_compute_mode,
  get_time_slice,
};

// Returns "set_power_limit": the name in zeusd's paths and in logs.
[[nodiscard]] std::string_view name_of(Operation operation);
// Returns the controls of a GPU that a write changes; 0 for a read.
enum ControlBits : unsigned {
  kPersistence = 1,
  kPowerLimit = 2,
  kGpuClocks = 4,
  kMemoryClocks = 8,
  kComputeMode = 16,
  kTimeSlice = 32,
};
[[nodiscard]] unsigned controls_written_by(Operation operation);
[[nodiscard]] inline bool is_write(Operation operation) { return controls_written_by(operation) != 0; }

struct Command {
  Operation operation = Operation::get_power;
  bool enabled = false;              // set_persistence_mode
  std::uint32_t power_limit_mw = 0;  // set_power_limit
  ClockRange clocks{};               // set_gpu_locked_clocks, set_mem_locked_clocks
  std::uint32_t mode = 0;            // set_compute_mode
  std::uint32_t time_slice = 0;      // set_time_slice

  friend bool operator==(const Command&, const Command&) = default;
};

// Returns true if both are writes to the same GPU and `later` sets or resets every control that `earlier` wrote.
[[nodiscard]] bool supersedes(const Command& later, const Command& earlier);

// "set_power_limit 200 W", "set_gpu_locked_clocks 210 to 1200 MHz", "get_power".
[[nodiscard]] std::string describe(const Command& command);

// The result of a read, in its operation's units: mW, mJ, 0 or 1; for constraints the minimum and maximum limit in mW.
struct Reading {
  std::uint64_t value = 0, second = 0;
  friend bool operator==(const Reading&, const Reading&) = default;
};

// "200 W", "199.5 W", "0.001 W".
[[nodiscard]] std::string watts_text(std::uint64_t milliwatts);
// "210 to 1200 MHz".
[[nodiscard]] std::string megahertz_text(const ClockRange& clocks);

}  // namespace headgate::power
