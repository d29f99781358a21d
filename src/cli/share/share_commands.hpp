// headgate share, quota and gpu: commands that headgated carries out.
#pragma once

#include <string>

#include "cli/command_line.hpp"

namespace headgate::cli {

// Returns the text for stdout. Errors: the daemon's, passed on; unreachable if there is no daemon.
[[nodiscard]] Result<std::string> share_command(const Invocation& invocation);

}  // namespace headgate::cli
