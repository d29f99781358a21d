// Every word of the command but demo and bench: an Invocation in, the exit status out.
#pragma once

#include "cli/command_line.hpp"

namespace headgate::cli {

[[nodiscard]] int perform(const Invocation& invocation);

}  // namespace headgate::cli
