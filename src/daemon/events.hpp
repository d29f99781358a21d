// What the daemon tells of processes at its doors, of memory that lacks, and of what it did to who was found: the
// sentences.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "identity/peer.hpp"
#include "node/enforce.hpp"
#include "node/memory_pressure.hpp"
#include "observe/audit.hpp"
#include "snapshot/snapshot.hpp"
#include "tenancy/processes.hpp"
#include "tenancy/share.hpp"

namespace headgate::daemon {

using OwnerUid = std::optional<std::uint32_t>;  // of the share; empty where it is gone

[[nodiscard]] snapshot::Event joined_event(const tenancy::TenantProcess& tenant, OwnerUid owner);
[[nodiscard]] snapshot::Event left_event(const tenancy::TenantProcess& tenant, OwnerUid owner);
// What a peer said at the share's door, and the kernel denies.
[[nodiscard]] snapshot::Event lie_event(const std::string& share, const identity::Peer& peer, const std::string& what,
                                        OwnerUid owner);
// Who sits in a share that asks first, and was not asked about.
[[nodiscard]] snapshot::Event unasked_event(const tenancy::TenantProcess& tenant, OwnerUid owner);
// The node has run before, and its database of shares and quotas is not there.
[[nodiscard]] snapshot::Event store_lost_event(const std::string& path);
[[nodiscard]] snapshot::Event shortage_event(const node::MemoryShortage& shortage, const tenancy::Share& share);
// `done`: by node::enforce(), which only warned where nothing is proven.
[[nodiscard]] snapshot::Event enforcement_event(const observe::Finding& found,
                                                const Result<node::EnforcementResult>& done);

}  // namespace headgate::daemon
