// The words of the command and their options, as CLI11 is told of them. For command_line.cpp alone.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace headgate::cli {

// What the options write into, before it becomes an Invocation.
struct Raw {
  Invocation out;
  std::string profile, output = "table", interval = "100ms", live_interval = "1s", since;
  std::optional<std::string> watch;  // "" without a time
  bool simulated = false, json = false, no_colour = false, ascii = false;
  std::vector<std::string> symbols;
  // Options under the names of the last release, and what each is called now. The options live as long as the App.
  struct Renamed {
    const CLI::Option* option;
    const char *before, *now;
  };
  std::vector<Renamed> renamed;
};

// Every word; parsing writes into `raw`, which has to outlive it.
[[nodiscard]] std::unique_ptr<CLI::App> describe_commands(Raw& raw);

}  // namespace headgate::cli
