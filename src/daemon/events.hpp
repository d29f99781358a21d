// Builds the daemon's events: of processes at share sockets, of memory shortages, and of what it did about findings.
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

using OwnerUid = std::optional<std::uint32_t>;  // of the share; empty if it is gone

[[nodiscard]] snapshot::Event joined_event(const tenancy::TenantProcess& tenant, OwnerUid owner);
[[nodiscard]] snapshot::Event left_event(const tenancy::TenantProcess& tenant, OwnerUid owner);
// A peer's claim at the share's socket that the kernel contradicts.
[[nodiscard]] snapshot::Event lie_event(const std::string& share, const identity::Peer& peer, const std::string& what,
                                        OwnerUid owner);
// A process in a share that asks first, which was not asked about.
[[nodiscard]] snapshot::Event unasked_event(const tenancy::TenantProcess& tenant, OwnerUid owner);
// The node has run before, but its database of shares and quotas is missing.
[[nodiscard]] snapshot::Event store_lost_event(const std::string& path);
[[nodiscard]] snapshot::Event shortage_event(const node::MemoryShortage& shortage, const tenancy::Share& share);
// `done`: of node::enforce(), which only warned if nothing is proven.
[[nodiscard]] snapshot::Event enforcement_event(const observe::Finding& found,
                                                const Result<node::EnforcementResult>& done);

}  // namespace headgate::daemon
