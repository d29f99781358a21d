// A run that names a share which is there already: it joins where what it says is what the share has.
#pragma once

#include "base/result.hpp"
#include "cli/command_line.hpp"
#include "config/config.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// What the run's options and its environment leave out is as the share has it. `snapshot`: whence the share is. Errors:
// usage, for the first value that differs, with what it is and what was asked, and for values that cannot be read.
[[nodiscard]] Result<void> agrees(const RunOptions& run, const config::Config& config, const snapshot::Share& share,
                                  const snapshot::Snapshot& snapshot);

}  // namespace headgate::cli
