// Filters a snapshot for a caller. Shares that the caller owns or may enter by name appear in full; others appear only
// in the GPUs' totals. Pure.
#pragma once

#include "node/caller.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::api {

// Returns the snapshot unchanged for administrators. For other callers, it drops the shares of other users, their
// contents and every mention of their names; GPU and node totals stay complete.
[[nodiscard]] snapshot::Snapshot visible(const snapshot::Snapshot& snapshot, const node::Caller& caller);
// Returns false for events of shares that were not the caller's at the time, unless the caller's process or operation
// caused them, and for events without a share that name a process of others. The present owner does not matter: names
// are reused.
[[nodiscard]] bool may_see(const snapshot::Event& event, const node::Caller& caller);

}  // namespace headgate::api
