// zeusd's file of command overrides: programs that set power and clocks if the driver's library is not permitted to.
// TOML, with one table per overridden operation.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace headgate::config {

struct CommandOverride {
  std::vector<std::vector<std::string>> commands;  // the words of each, with placeholders such as "{gpu_id}"
  std::optional<std::string> error_pattern;        // a POSIX extended regular expression
  std::chrono::seconds timeout{60};                // for each command
  friend bool operator==(const CommandOverride&, const CommandOverride&) = default;
};

// By operation, such as "set_power_limit".
using CommandOverrides = std::map<std::string, CommandOverride, std::less<>>;

// Returns the placeholders an operation's commands may contain, without braces; empty if it is not a write operation.
[[nodiscard]] std::vector<std::string_view> placeholders_of(std::string_view operation);

// Errors: usage, naming the place and what is accepted. `name`: the file's name, for messages.
[[nodiscard]] Result<CommandOverrides> parse_command_overrides(std::string_view text, const std::string& name);

struct LoadedOverrides {
  CommandOverrides overrides;
  std::string warning;  // the file's group may change it; empty if not
};
// Errors: the parser's, and denied if the owner is neither root nor us, or all users may write the file.
[[nodiscard]] Result<LoadedOverrides> load_command_overrides(const std::string& path);

}  // namespace headgate::config
