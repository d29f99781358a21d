// headgate run: runs a program inside a share.
#pragma once

#include "cli/command_line.hpp"
#include "config/config.hpp"

namespace headgate::cli {

// Returns the program's exit status, or ours: 2 usage, 3 no driver, 4 no capacity, 5 denied, 6 unsupported, 125 another
// failure before the program ran, 126 and 127 as in a shell.
[[nodiscard]] int run(const Invocation& invocation, const config::Config& config);

}  // namespace headgate::cli
