// Checks that a run that names an existing share asks for the values that the share has.
#pragma once

#include "base/result.hpp"
#include "cli/run/run_request.hpp"
#include "config/config.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// Compares the run's options and environment with the share; values left out match. `snapshot`: the one that holds the
// share. Errors: usage, for the first value that differs, with both values, and for values that cannot be parsed.
[[nodiscard]] Result<void> agrees(const RunOptions& run, const config::Config& config, const snapshot::Share& share,
                                  const snapshot::Snapshot& snapshot);

}  // namespace headgate::cli
