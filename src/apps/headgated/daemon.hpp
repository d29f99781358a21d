// The daemon put together out of its rooms.
#pragma once

#include "apps/headgated/options.hpp"
#include "base/result.hpp"

namespace headgate::daemon {

// What the configuration says and asks of this machine (its group, token file and directories), without a start. Errors: as of
// the start.
[[nodiscard]] Result<void> check(const Options& options);

// Until SIGTERM or SIGINT. Errors: of the start; each names file, value and what is accepted.
[[nodiscard]] Result<void> run(const Options& options);

}  // namespace headgate::daemon
