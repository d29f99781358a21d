#include "power/command.hpp"

#include "config/power_settings.hpp"

namespace headgate::power {
namespace {

// Returns the controls of a GPU that a write changes, as bits.
unsigned controls_of(Operation operation) {
  constexpr unsigned kPersistence = 1, kPowerLimit = 2, kGpuClocks = 4, kMemoryClocks = 8, kComputeMode = 16,
                     kTimeSlice = 32;
  switch (operation) {
    case Operation::set_persistence_mode: return kPersistence;
    case Operation::set_power_limit: return kPowerLimit;
    case Operation::set_gpu_locked_clocks:
    case Operation::reset_gpu_locked_clocks: return kGpuClocks;
    case Operation::set_mem_locked_clocks:
    case Operation::reset_mem_locked_clocks: return kMemoryClocks;
    case Operation::reset_locked_clocks: return kGpuClocks | kMemoryClocks;
    case Operation::set_compute_mode: return kComputeMode;
    case Operation::set_time_slice: return kTimeSlice;
    default: return 0;
  }
}

Result<Reading> done(const Result<void>& result) {
  if (!result) return std::unexpected(result.error());
  return Reading{};
}

template <typename Value>
Result<Reading> read(const Result<Value>& result) {
  if (!result) return std::unexpected(result.error());
  return Reading{.value = static_cast<std::uint64_t>(*result), .second = 0};
}

}  // namespace

std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::set_persistence_mode: return "set_persistence_mode";
    case Operation::set_power_limit: return "set_power_limit";
    case Operation::set_gpu_locked_clocks: return "set_gpu_locked_clocks";
    case Operation::set_mem_locked_clocks: return "set_mem_locked_clocks";
    case Operation::reset_gpu_locked_clocks: return "reset_gpu_locked_clocks";
    case Operation::reset_mem_locked_clocks: return "reset_mem_locked_clocks";
    case Operation::reset_locked_clocks: return "reset_locked_clocks";
    case Operation::set_compute_mode: return "set_compute_mode";
    case Operation::get_compute_mode: return "get_compute_mode";
    case Operation::set_time_slice: return "set_time_slice";
    case Operation::get_time_slice: return "get_time_slice";
    case Operation::get_power: return "get_power";
    case Operation::get_cumulative_energy: return "get_cumulative_energy";
    case Operation::get_power_limit: return "get_power_limit";
    case Operation::get_power_limit_constraints: return "get_power_limit_constraints";
    case Operation::get_persistence_mode: return "get_persistence_mode";
  }
  return "";
}

bool is_write(Operation operation) { return controls_of(operation) != 0; }

bool supersedes(const Command& later, const Command& earlier) {
  const unsigned touched = controls_of(earlier.operation);
  return touched != 0 && (controls_of(later.operation) & touched) == touched;
}

std::string watts_text(std::uint64_t milliwatts) {
  std::string rest = std::to_string(1000 + milliwatts % 1000).substr(1);
  rest.erase(rest.find_last_not_of('0') + 1);
  return std::to_string(milliwatts / 1000) + (rest.empty() ? "" : "." + rest) + " W";
}

std::string describe(const Command& command) {
  std::string text(name_of(command.operation));
  switch (command.operation) {
    case Operation::set_persistence_mode: return text + (command.enabled ? " on" : " off");
    case Operation::set_power_limit: return text + " " + watts_text(command.power_limit_mw);
    case Operation::set_gpu_locked_clocks:
    case Operation::set_mem_locked_clocks:
      return text + " " + std::to_string(command.clocks.min_mhz) + " to " + std::to_string(command.clocks.max_mhz) +
             " MHz";
    case Operation::set_compute_mode: return text + " " + std::to_string(command.mode);
    case Operation::set_time_slice: return text + " " + std::string(config::format_time_slice(command.time_slice));
    default: return text;
  }
}

Result<Reading> perform(const Command& command, GpuManager& gpu) {
  switch (command.operation) {
    case Operation::set_persistence_mode: return done(gpu.set_persistence_mode(command.enabled));
    case Operation::set_power_limit: return done(gpu.set_power_limit(command.power_limit_mw));
    case Operation::set_gpu_locked_clocks: return done(gpu.set_gpu_locked_clocks(command.clocks));
    case Operation::set_mem_locked_clocks: return done(gpu.set_mem_locked_clocks(command.clocks));
    case Operation::reset_gpu_locked_clocks: return done(gpu.reset_gpu_locked_clocks());
    case Operation::reset_mem_locked_clocks: return done(gpu.reset_mem_locked_clocks());
    case Operation::reset_locked_clocks: return done(gpu.reset_locked_clocks());
    case Operation::set_compute_mode: return done(gpu.set_compute_mode(command.mode));
    case Operation::get_compute_mode: return read(gpu.compute_mode());
    case Operation::set_time_slice: return done(gpu.set_time_slice(command.time_slice));
    case Operation::get_time_slice: return read(gpu.time_slice());
    case Operation::get_power: return read(gpu.instant_power_mw());
    case Operation::get_cumulative_energy: return read(gpu.total_energy_mj());
    case Operation::get_power_limit: return read(gpu.power_limit_mw());
    case Operation::get_persistence_mode: return read(gpu.persistence_mode());
    case Operation::get_power_limit_constraints: {
      const auto range = gpu.power_limit_range();
      if (!range) return std::unexpected(range.error());
      return Reading{.value = range->min_mw, .second = range->max_mw};
    }
  }
  return fail(ErrorCode::failed, "unknown operation");
}

}  // namespace headgate::power
