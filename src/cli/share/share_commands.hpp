// headgate share, quota and gpu: words that headgated carries out.
#pragma once

#include <string>

#include "cli/command_line.hpp"

namespace headgate::cli {

// What stands on stdout. Errors: the daemon's, in its words; unreachable without one.
[[nodiscard]] Result<std::string> share_command(const Invocation& invocation);

}  // namespace headgate::cli
