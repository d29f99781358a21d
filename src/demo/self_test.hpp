// The self-test of `headgate doctor`: a program in a share asks for more than the share has.
#pragma once

#include "cli/support/doctor.hpp"

namespace headgate::demo {

// Runs a program in a share of 64 MiB that asks the driver for 65 MiB, through the real `headgate run`. Blocks for at
// most 60 s. The share, and where `simulated` the node, are private and gone on return.
[[nodiscard]] cli::Finding self_test(bool simulated);

}  // namespace headgate::demo
