// Reads argv by the table of commands. Only parse.cpp uses CLI11.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"

namespace headgate::cli {

struct Parsed {
  Call call;
  Action run;
  Reads reads = Reads::nothing;
  std::optional<std::string> help;    // print this and stop
  std::vector<std::string> warnings;  // options written under a former name
};

// Headgate bare is `status`, whose options stand before other commands too. Errors: usage, quoting what was written and
// naming what is accepted.
[[nodiscard]] Result<Parsed> parse(const Commands& commands, int argc, const char* const* argv);

// How to complain about arguments that cannot be parsed: in JSON if they ask for it.
[[nodiscard]] Voice voice_of_arguments(int argc, const char* const* argv);

// Adds the options that every command has, for completion: they cannot be stored.
void add_common_options(Options& options);

}  // namespace headgate::cli
