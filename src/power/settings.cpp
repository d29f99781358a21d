#include "power/settings.hpp"

#include <type_traits>

#include "config/power_settings.hpp"

namespace headgate::power {
namespace {

void add_clocks(const std::optional<ClockRange>& clocks, Operation set, Operation reset,
                std::vector<Command>& commands) {
  if (!clocks) return;
  const bool locked = clocks->max_mhz != 0;
  commands.push_back({.operation = locked ? set : reset, .clocks = *clocks});
}

void add_all_but_persistence(const Settings& settings, std::vector<Command>& commands) {
  add_clocks(settings.gpu_clocks, Operation::set_gpu_locked_clocks, Operation::reset_gpu_locked_clocks, commands);
  add_clocks(settings.mem_clocks, Operation::set_mem_locked_clocks, Operation::reset_mem_locked_clocks, commands);
  if (settings.power_limit_mw)
    commands.push_back({.operation = Operation::set_power_limit, .power_limit_mw = *settings.power_limit_mw});
  if (settings.compute_mode)
    commands.push_back({.operation = Operation::set_compute_mode, .mode = *settings.compute_mode});
  if (settings.time_slice)
    commands.push_back({.operation = Operation::set_time_slice, .time_slice = *settings.time_slice});
}

void add_persistence(const Settings& settings, std::vector<Command>& commands) {
  if (settings.persistence)
    commands.push_back({.operation = Operation::set_persistence_mode, .enabled = *settings.persistence});
}

std::string text_of(unsigned, bool on) { return on ? "on" : "off"; }
std::string text_of(unsigned, const ClockRange& clocks) {
  return clocks.max_mhz == 0 ? "none" : megahertz_text(clocks);
}
std::string text_of(unsigned control, std::uint32_t value) {
  if (control == kPowerLimit) return watts_text(value);
  return std::string(control == kComputeMode ? config::format_compute_mode(value) : config::format_time_slice(value));
}

}  // namespace

Settings without(Settings from, const Settings& named) {
  each_control([&](auto member, auto...) {
    if (named.*member) (from.*member).reset();
  });
  return from;
}

void replace_named(Settings& in, const Settings& by) {
  each_control([&](auto member, auto...) {
    if (in.*member && by.*member) in.*member = by.*member;
  });
}

void add_missing(Settings& to, const Settings& more) {
  each_control([&](auto member, auto...) {
    if (!(to.*member)) to.*member = more.*member;
  });
}

Settings named_by(const Command& command) {
  Settings named;
  each_control([&](auto member, unsigned bit, auto...) {
    if ((controls_written_by(command.operation) & bit) != 0) (named.*member).emplace();
  });
  return named;
}

std::vector<Command> commands_to_apply(const Settings& settings) {
  std::vector<Command> commands;
  add_persistence(settings, commands);
  add_all_but_persistence(settings, commands);
  return commands;
}

std::vector<Command> commands_to_restore(const Settings& saved) {
  std::vector<Command> commands;
  add_all_but_persistence(saved, commands);
  add_persistence(saved, commands);
  return commands;
}

bool touches(const Settings& settings, const Command& command) {
  bool any = false;
  each_control([&](auto member, unsigned bit, auto...) {
    any = any || (settings.*member && (controls_written_by(command.operation) & bit) != 0);
  });
  return any;
}

std::vector<Operation> reads_of(const Settings& like) {
  std::vector<Operation> reads;
  each_control([&](auto member, unsigned, const char*, const char*, Operation get) {
    if (like.*member && !is_write(get)) reads.push_back(get);
  });
  return reads;
}

void take_reading(Operation read, const Reading& reading, Settings& settings) {
  each_control([&](auto member, unsigned, const char*, const char*, Operation get) {
    using Value = typename std::remove_reference_t<decltype(settings.*member)>::value_type;
    if constexpr (std::is_integral_v<Value>)
      if (get == read) settings.*member = static_cast<Value>(reading.value);
  });
}

std::vector<Control> controls_of(const Settings& settings) {
  std::vector<Control> controls;
  each_control([&](auto member, unsigned bit, const char* name, auto...) {
    if (const auto& value = settings.*member) controls.push_back({name, text_of(bit, *value)});
  });
  return controls;
}

std::optional<std::string> common_control(const Settings& a, const Settings& b) {
  for (const Control& one : controls_of(a)) {
    for (const Control& other : controls_of(b))
      if (one.name == other.name) return one.name;
  }
  return std::nullopt;
}

}  // namespace headgate::power
