// headgate power: limits, clocks and modes of the GPUs, set by headgated within its policy.
#pragma once

#include "cli/command_line.hpp"

namespace headgate::cli {

// Returns the exit status. Errors: the daemon's, passed on; unreachable if there is no daemon.
[[nodiscard]] int power_command(const Invocation& invocation);

}  // namespace headgate::cli
