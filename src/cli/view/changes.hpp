// Derives events from two snapshots of the node, for views without a daemon's log. Pure.
#pragma once

#include <vector>

#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// Returns memory refusals, shares and processes that came or went, processes outside all shares, XIDs. Times are the
// refusal's if the ledger has it, else that of `now`; sequence numbers follow `last_sequence`.
[[nodiscard]] std::vector<snapshot::Event> changes(const snapshot::Snapshot& before, const snapshot::Snapshot& now,
                                                   std::uint64_t last_sequence);

// Returns events that a single snapshot still shows: the last refusal and the last wait of each share, oldest first.
[[nodiscard]] std::vector<snapshot::Event> remembered(const snapshot::Snapshot& snapshot);

}  // namespace headgate::cli
