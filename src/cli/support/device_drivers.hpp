// `headgate gpu ls --drivers`: the device drivers that dockerd has on this node, and what each is chosen by.
#pragma once

#include "cli/term/output.hpp"

namespace headgate::cli {

// The exit status.
[[nodiscard]] int device_drivers_command(const Voice& voice);

}  // namespace headgate::cli
