// A view again and again: on a terminal in its place, elsewhere one below the other.
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
  std::unique_ptr<SnapshotSource> source;  // one for all looks
  // What a look shows; `heading` is false where the columns of CSV have been named. May be asked again for the same
  // look, for a terminal of another size.
  std::function<Result<std::string>(const Look& look, const Voice& voice, bool heading)> draw;
};

// Until Ctrl-C or q (0), or another signal (128 + its number). What cannot be shown is an error at the first time, and
// later said, while the next look is awaited. Errors also: standard output is gone.
[[nodiscard]] Result<int> watch(Watched watched, const Voice& voice);

}  // namespace headgate::cli
