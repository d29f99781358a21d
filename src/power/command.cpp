#include "power/command.hpp"

#include <iterator>

#include "config/power_settings.hpp"

namespace headgate::power {
namespace {

// In the order of Operation.
constexpr struct {
  std::string_view name;
  unsigned controls;
} kOperations[] = {
    {"set_persistence_mode", kPersistence},
    {"set_power_limit", kPowerLimit},
    {"set_gpu_locked_clocks", kGpuClocks},
    {"set_mem_locked_clocks", kMemoryClocks},
    {"reset_gpu_locked_clocks", kGpuClocks},
    {"reset_mem_locked_clocks", kMemoryClocks},
    {"reset_locked_clocks", kGpuClocks | kMemoryClocks},
    {"set_compute_mode", kComputeMode},
    {"set_time_slice", kTimeSlice},
    {"get_power", 0},
    {"get_cumulative_energy", 0},
    {"get_power_limit", 0},
    {"get_power_limit_constraints", 0},
    {"get_persistence_mode", 0},
    {"get_compute_mode", 0},
    {"get_time_slice", 0},
};
static_assert(std::size(kOperations) == static_cast<std::size_t>(Operation::get_time_slice) + 1);

}  // namespace

std::string_view name_of(Operation operation) { return kOperations[static_cast<std::size_t>(operation)].name; }

unsigned controls_written_by(Operation operation) { return kOperations[static_cast<std::size_t>(operation)].controls; }

bool supersedes(const Command& later, const Command& earlier) {
  const unsigned touched = controls_written_by(earlier.operation);
  return touched != 0 && (controls_written_by(later.operation) & touched) == touched;
}

std::string watts_text(std::uint64_t milliwatts) {
  std::string rest = std::to_string(1000 + milliwatts % 1000).substr(1);
  rest.erase(rest.find_last_not_of('0') + 1);
  return std::to_string(milliwatts / 1000) + (rest.empty() ? "" : "." + rest) + " W";
}

std::string megahertz_text(const ClockRange& clocks) {
  return std::to_string(clocks.min_mhz) + " to " + std::to_string(clocks.max_mhz) + " MHz";
}

std::string describe(const Command& command) {
  std::string text(name_of(command.operation));
  switch (command.operation) {
    case Operation::set_persistence_mode: return text + (command.enabled ? " on" : " off");
    case Operation::set_power_limit: return text + " " + watts_text(command.power_limit_mw);
    case Operation::set_gpu_locked_clocks:
    case Operation::set_mem_locked_clocks: return text + " " + megahertz_text(command.clocks);
    case Operation::set_compute_mode: return text + " " + std::to_string(command.mode);
    case Operation::set_time_slice: return text + " " + std::string(config::format_time_slice(command.time_slice));
    default: return text;
  }
}

}  // namespace headgate::power
