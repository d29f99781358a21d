// Repeats a view: on a terminal it is redrawn, elsewhere the outputs follow each other.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "cli/term/output.hpp"
#include "cli/top/watcher.hpp"
#include "cli/view/snapshot_source.hpp"

namespace headgate::cli {

struct Watched {
  std::string title;  // "headgate status"
  std::chrono::milliseconds interval;
  std::unique_ptr<SnapshotSource> source;  // the same for all snapshots
  // Formats a snapshot; `heading` is false once the CSV column names are printed. May be called again for the same
  // snapshot after a terminal resize.
  std::function<Result<std::string>(const Look& look, const Voice& voice, bool heading)> draw;
};

// Runs until Ctrl-C or q (0), or another signal (128 + its number). A failure of the first snapshot is an error; later
// ones are reported while waiting for the next. Errors also: standard output is gone.
[[nodiscard]] Result<int> watch(Watched watched, const Voice& voice);

}  // namespace headgate::cli
