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

// Answers `headgate __complete WORDS...`, which the shells' scripts call: what the last of the words may become. One
// candidate a line, with a tab and its summary. ":file" means a file's name, and ":command<tab>N" another program's
// command line, which begins at word N of the shell's line; headgate is word 1.
[[nodiscard]] std::string completions(const Commands& table, const std::vector<std::string>& words);

}  // namespace headgate::cli
