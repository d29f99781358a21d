// The daemon put together out of its rooms.
#pragma once

#include "base/result.hpp"
#include "daemon/options.hpp"

namespace headgate::daemon {

// Until SIGTERM or SIGINT. Errors: of the start; each names file, value and what is accepted.
[[nodiscard]] Result<void> run(const Options& options);

}  // namespace headgate::daemon
