// Shell completion, from the table of commands.
#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"

namespace headgate::cli {

// Answers `headgate __complete WORDS...`, which the shells' scripts call: what the last of the words may become. One
// candidate a line, with a tab and its summary. ":file" means a file's name, and ":command<tab>N" another program's
// command line, which begins at word N of the shell's line; headgate is word 1.
[[nodiscard]] std::string completions(const Commands& table, const std::vector<std::string>& words);

}  // namespace headgate::cli
