// Facts about the machine for a support bundle, as text, and the names to redact in it.
#pragma once

#include <string>
#include <vector>

#include "http/endpoint.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// Returns kernel, distribution, CPUs and memory, without the host name.
[[nodiscard]] std::string system_facts();
// Returns facts of the driver's kernel module and device nodes; empty if the module is not loaded.
[[nodiscard]] std::string driver_facts();
// Returns systemd's status of headgated's unit; empty if systemd is not running or does not know the unit.
[[nodiscard]] std::string unit_facts();
// Returns the resource limits of the process that listens at the daemon's Unix socket; empty if they cannot be read.
[[nodiscard]] std::string daemon_limits(const http::Endpoint& daemon);

// Returns the names of ordinary users, of users that the snapshot and events mention by UID, and of the current user.
[[nodiscard]] std::vector<std::string> user_names(const snapshot::Snapshot& snapshot,
                                                  const std::vector<snapshot::Event>& events);
// Returns the host name as the kernel and the snapshot report it, in full and up to the first dot, and its domain.
[[nodiscard]] std::vector<std::string> host_names(const snapshot::Snapshot& snapshot);

}  // namespace headgate::cli
