// headgate power: limits, clocks and modes of the GPUs, set by headgated within its policy.
#pragma once

#include "cli/command_line.hpp"

namespace headgate::cli {

// The exit status. Errors are the daemon's, in its words; unreachable without one.
[[nodiscard]] int power_command(const Invocation& invocation);

}  // namespace headgate::cli
