// What a support bundle tells of the machine, as text, and whom its texts may name.
#pragma once

#include <string>
#include <vector>

#include "http/endpoint.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// Kernel, distribution, CPUs, memory. No host name.
[[nodiscard]] std::string system_facts();
// What the driver's kernel module and its device nodes tell; empty where there is no module.
[[nodiscard]] std::string driver_facts();
// What systemd says of headgated's unit; empty where systemd does not run or does not know it.
[[nodiscard]] std::string unit_facts();
// The kernel's limits of the process that listens at the daemon's Unix socket; empty where they cannot be read.
[[nodiscard]] std::string daemon_limits(const http::Endpoint& daemon);

// Of this machine's ordinary users, of whoever the snapshot and the events tell of by number, and who runs this.
[[nodiscard]] std::vector<std::string> user_names(const snapshot::Snapshot& snapshot,
                                                  const std::vector<snapshot::Event>& events);
// As the kernel and the snapshot call it, whole and up to its first dot, and its domain.
[[nodiscard]] std::vector<std::string> host_names(const snapshot::Snapshot& snapshot);

}  // namespace headgate::cli
