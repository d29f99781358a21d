// Formats what `headgate run` prints about a daemon's share: its limits before the run, and refusals after it. Pure.
#pragma once

#include <string>

#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// "share train on GPU 0 (H200): 8.0 GiB, 50 % promised, at most 80 %, SIMULATED".
[[nodiscard]] std::string format_granted(const snapshot::Snapshot& snapshot, const snapshot::Share& share);

// "share train was refused memory 3 times meanwhile: headgate why train"; empty if there were no refusals.
[[nodiscard]] std::string format_refused(const snapshot::Share& before, const snapshot::Share& after);

}  // namespace headgate::cli
