// Who the processes of a snapshot are: pids of other namespaces turned into the host's, users, and where they run.
#pragma once

#include <string>

#include "identity/cgroup.hpp"
#include "observe/join.hpp"
#include "tenancy/processes.hpp"

namespace headgate::node {

// Fills input.host_pids and input.facts for the seats and the driver's processes: from those that `tenants` holds by
// pidfd (may be null), else out of /proc at `proc`. What is not to be found (a process that ended, no /proc) is left
// unknown; so is who is in no list but a page that tenants can write, past the numbers below.
void add_processes(observe::JoinInput& input, const tenancy::Processes* tenants, const std::string& proc);
// Of a snapshot, which the daemon's loop waits for: a tenth of a millisecond each. Until they have been looked into,
// which tenancy::Processes does at its own pace, the page's own word for the others has to do.
inline constexpr std::size_t kMaxClaimsAsked = 256, kMaxClaimsAskedOfAShare = 64;

// "host", "docker 4f2a8c1d9b0e", "pod 6a1f..., docker", "slurm 4711.0", "unit train.service".
[[nodiscard]] std::string where_text(const identity::Identity& identity);

}  // namespace headgate::node
