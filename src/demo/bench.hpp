// `headgate bench`: checks on the user's GPU, or a simulated one, that limits hold.
#pragma once

#include "cli/command.hpp"

namespace headgate::demo {

// Blocks for about 20 s. Exit status: 0 if every limit held, 1 if one did not, 2 for usage errors, 3 if no driver
// answers. With --sim on a simulated node.
[[nodiscard]] cli::Command bench_command();

}  // namespace headgate::demo
