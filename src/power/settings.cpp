#include "power/settings.hpp"

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

std::string clocks_text(const ClockRange& clocks) {
  if (clocks.max_mhz == 0) return "none";
  return std::to_string(clocks.min_mhz) + " to " + std::to_string(clocks.max_mhz) + " MHz";
}

// Calls visit(a.x, b.x) for each control x.
template <typename A, typename B, typename Visit>
void each_control(A& a, B& b, Visit&& visit) {
  visit(a.power_limit_mw, b.power_limit_mw);
  visit(a.persistence, b.persistence);
  visit(a.gpu_clocks, b.gpu_clocks);
  visit(a.mem_clocks, b.mem_clocks);
  visit(a.compute_mode, b.compute_mode);
  visit(a.time_slice, b.time_slice);
}

}  // namespace

Settings without(Settings from, const Settings& named) {
  each_control(from, named, [](auto& one, const auto& other) {
    if (other) one.reset();
  });
  return from;
}

void replace_named(Settings& in, const Settings& by) {
  each_control(in, by, [](auto& one, const auto& other) {
    if (one && other) one = other;
  });
}

void add_missing(Settings& to, const Settings& more) {
  each_control(to, more, [](auto& one, const auto& other) {
    if (!one) one = other;
  });
}

Settings named_by(const Command& command) {
  Settings all;
  all.power_limit_mw = 0;
  all.persistence = false;
  all.gpu_clocks = all.mem_clocks = ClockRange{};
  all.compute_mode = all.time_slice = 0;
  Settings named;
  const auto take = [&](auto Settings::* control) {
    Settings one;
    one.*control = all.*control;
    if (touches(one, command)) named.*control = all.*control;
  };
  take(&Settings::power_limit_mw);
  take(&Settings::persistence);
  take(&Settings::gpu_clocks);
  take(&Settings::mem_clocks);
  take(&Settings::compute_mode);
  take(&Settings::time_slice);
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
  switch (command.operation) {
    case Operation::set_power_limit: return settings.power_limit_mw.has_value();
    case Operation::set_persistence_mode: return settings.persistence.has_value();
    case Operation::set_gpu_locked_clocks:
    case Operation::reset_gpu_locked_clocks: return settings.gpu_clocks.has_value();
    case Operation::set_mem_locked_clocks:
    case Operation::reset_mem_locked_clocks: return settings.mem_clocks.has_value();
    case Operation::reset_locked_clocks: return settings.gpu_clocks || settings.mem_clocks;
    case Operation::set_compute_mode: return settings.compute_mode.has_value();
    case Operation::set_time_slice: return settings.time_slice.has_value();
    default: return false;
  }
}

std::vector<Control> controls_of(const Settings& settings) {
  std::vector<Control> controls;
  if (settings.power_limit_mw) controls.push_back({"power limit", watts_text(*settings.power_limit_mw)});
  if (settings.persistence) controls.push_back({"persistence mode", *settings.persistence ? "on" : "off"});
  if (settings.gpu_clocks) controls.push_back({"GPU clocks", clocks_text(*settings.gpu_clocks)});
  if (settings.mem_clocks) controls.push_back({"memory clocks", clocks_text(*settings.mem_clocks)});
  if (settings.compute_mode)
    controls.push_back({"compute mode", std::string(config::format_compute_mode(*settings.compute_mode))});
  if (settings.time_slice)
    controls.push_back({"time slice", std::string(config::format_time_slice(*settings.time_slice))});
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
