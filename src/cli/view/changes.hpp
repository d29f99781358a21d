// What happened between two snapshots of the node, as events: for views where no daemon keeps a log. Pure.
#pragma once

#include <vector>

#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// Refusals of memory, shares and processes that came and went, processes outside every share, XIDs. Times are those of
// the refusal where the ledger tells, else of `now`; sequence numbers go on from `last_sequence`.
[[nodiscard]] std::vector<snapshot::Event> changes(const snapshot::Snapshot& before, const snapshot::Snapshot& now,
                                                   std::uint64_t last_sequence);

// What one snapshot alone still knows: the last refusal and the last wait of each share, oldest first.
[[nodiscard]] std::vector<snapshot::Event> remembered(const snapshot::Snapshot& snapshot);

}  // namespace headgate::cli
