// `headgate gpu ls --drivers`: dockerd's device drivers on this node, and how each is selected.
#pragma once

#include "cli/term/output.hpp"

namespace headgate::cli {

// Returns the exit status.
[[nodiscard]] int device_drivers_command(const Voice& voice);

}  // namespace headgate::cli
