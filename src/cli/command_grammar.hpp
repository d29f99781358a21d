// The commands and their options, declared to CLI11. Only for command_line.cpp.
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

// The options' raw values, before they become an Invocation.
struct Raw {
  Invocation out;
  std::string profile, output = "table", interval = "100ms", live_interval = "1s", since;
  std::optional<std::string> watch;  // "" if given without a time
  bool simulated = false, json = false, no_colour = false, ascii = false;
  std::vector<std::string> symbols;
  // Options under last release's names, and their present names. The option pointers live as long as the App.
  struct Renamed {
    const CLI::Option* option;
    const char *before, *now;
  };
  std::vector<Renamed> renamed;
};

// Declares all commands. Parsing writes into `raw`, which must outlive the App.
[[nodiscard]] std::unique_ptr<CLI::App> describe_commands(Raw& raw);

}  // namespace headgate::cli
