// The daemon: its rooms wired together.
#pragma once

#include "base/result.hpp"
#include "daemon/options.hpp"

namespace headgate::daemon {

// Runs until SIGTERM or SIGINT. Errors: of the start; each names file, value and what is accepted.
[[nodiscard]] Result<void> run(const Options& options);

}  // namespace headgate::daemon
