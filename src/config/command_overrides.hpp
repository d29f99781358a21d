// zeusd's file of command overrides: programs that set power and clocks where the driver's library may not. TOML; one
// table for each operation that is overridden.
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
  std::vector<std::vector<std::string>> commands;  // words of each; "{gpu_id}" and kin are still in them
  std::optional<std::string> error_pattern;        // a POSIX extended regular expression
  std::chrono::seconds timeout{60};                // of each command
  friend bool operator==(const CommandOverride&, const CommandOverride&) = default;
};

// By operation: "set_power_limit".
using CommandOverrides = std::map<std::string, CommandOverride, std::less<>>;

// The placeholders that an operation's commands may have, without braces; empty for a name that is no write operation.
[[nodiscard]] std::vector<std::string_view> placeholders_of(std::string_view operation);

// Errors: usage, with the place and what is accepted. `name`: the file's, for messages.
[[nodiscard]] Result<CommandOverrides> parse_command_overrides(std::string_view text, const std::string& name);

struct LoadedOverrides {
  CommandOverrides overrides;
  std::string warning;  // the file's group may change it; empty: no
};
// Errors: besides those of the parser: denied, where its owner is neither root nor we, or all users may write it.
[[nodiscard]] Result<LoadedOverrides> load_command_overrides(const std::string& path);

}  // namespace headgate::config
