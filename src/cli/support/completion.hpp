// Shell completion, from the table of commands.
#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"

namespace headgate::cli {

// Answers `headgate __complete WORDS...`, which the shells' scripts call: what the last of the words may become. One
// candidate a line, with a tab and its summary. ":file" is for a file's name, and ":command<tab>N" for another program's
// command line that begins at word N of the shell's line, headgate itself being the first.
[[nodiscard]] std::string completions(const Commands& table, const std::vector<std::string>& words);

}  // namespace headgate::cli
