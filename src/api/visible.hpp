// What a caller may see of a picture: his own shares in full, the others' only in the totals of the GPUs. Pure.
#pragma once

#include <vector>

#include "node/node.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::api {

// The same for an administrator. For others: the shares, processes and events of other users are left out, and names of theirs
// stand nowhere; the GPUs' and the node's totals stay whole.
[[nodiscard]] snapshot::Snapshot visible(const snapshot::Snapshot& picture, const node::Caller& caller);
// Events of shares that the caller does not own are left out, and those that concern no share but name a process of
// another user. `picture`: who owns what.
[[nodiscard]] std::vector<snapshot::Event> visible(std::vector<snapshot::Event> events,
                                                   const snapshot::Snapshot& picture, const node::Caller& caller);

}  // namespace headgate::api
