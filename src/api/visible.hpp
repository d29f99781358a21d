// What a caller may see of a snapshot: his own shares and those into which he was let by name in full, the others' only
// in the totals of the GPUs. Pure.
#pragma once

#include <vector>

#include "node/caller.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::api {

// The same for an administrator. For others: the shares of other users and what is in them are left out, and names of
// theirs stand nowhere; the GPUs' and the node's totals stay whole.
[[nodiscard]] snapshot::Snapshot visible(const snapshot::Snapshot& snapshot, const node::Caller& caller);
// Left out are events of shares that were not the caller's when they happened, unless by a process or an operation of
// his own, and those that concern no share but name a process. Whose a share is now does not count: names are used
// again.
[[nodiscard]] std::vector<snapshot::Event> visible(std::vector<snapshot::Event> events, const node::Caller& caller);
[[nodiscard]] bool may_see(const snapshot::Event& event, const node::Caller& caller);

}  // namespace headgate::api
