// The self-test of `headgate doctor`: a program asks for more memory than its share has.
#pragma once

#include "cli/support/doctor.hpp"

namespace headgate::demo {

// Starts a program in a share of 64 MiB with the real `headgate run`; it asks the driver for 65 MiB. Blocks for at most
// 60 s. The share, and if `simulated` the node, are private and removed on return.
[[nodiscard]] cli::Finding self_test(bool simulated);

}  // namespace headgate::demo
