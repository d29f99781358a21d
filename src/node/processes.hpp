// Identifies the processes of a snapshot: pids of other namespaces turned into the host's, users, and where they run.
#pragma once

#include <string>

#include "identity/cgroup.hpp"
#include "observe/join.hpp"
#include "tenancy/processes.hpp"

namespace headgate::node {

// Fills input.host_pids and input.facts for the seats and the driver's processes: from those that `tenants` holds by
// pidfd (may be null), else from /proc at `proc`. What cannot be found (a process that ended, no /proc) stays unknown.
// So does a process that only a page names, which tenants can write, beyond the numbers below.
void add_processes(observe::JoinInput& input, const tenancy::Processes* tenants, const std::string& proc);
// Per snapshot, which the daemon's loop waits for: a tenth of a millisecond each. For the others the page's claim is
// shown until tenancy::Processes, at its own pace, has looked into them.
inline constexpr std::size_t kMaxClaimsAsked = 256, kMaxClaimsAskedOfAShare = 64;

// "host", "docker 4f2a8c1d9b0e", "pod 6a1f..., docker", "slurm 4711.0", "unit train.service".
[[nodiscard]] std::string where_text(const identity::Identity& identity);

}  // namespace headgate::node
