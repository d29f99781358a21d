// Generates completion scripts from the command tree.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "cli/command_line.hpp"

namespace headgate::cli {

// shell: bash, zsh or fish.
[[nodiscard]] Result<std::string> completion_script(std::string_view shell, const CommandTree& tree);

}  // namespace headgate::cli
