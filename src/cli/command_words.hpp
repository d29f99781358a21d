// The words of the command and their options, as CLI11 is told of them. For command_line.cpp alone.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.hpp"

namespace CLI {
class App;
}

namespace headgate::cli {

// What the options write into, before it becomes an Invocation.
struct Raw {
  Invocation out;
  std::string profile, output = "table", interval = "100ms", live_interval = "1s", since;
  std::optional<std::string> watch;  // "" without a time
  bool simulated = false, json = false, no_colour = false, ascii = false;
  std::vector<std::string> symbols;
};

// Every word; parsing writes into `raw`, which has to outlive it.
[[nodiscard]] std::unique_ptr<CLI::App> describe_words(Raw& raw);

}  // namespace headgate::cli
