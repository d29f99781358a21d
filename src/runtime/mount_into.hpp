// Mounts into a container that its runtime is creating.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.hpp"
#include "oci/cdi_document.hpp"

namespace headgate::runtime {

// Binds each of `mounts` (of their options, only ro, noexec, nosuid and nodev count) into the mount namespace of `pid`,
// below the container's root: `root` on the host, or already the namespace's root. Leaves this process in that
// namespace. The kernel requires CAP_SYS_ADMIN in the owning user namespace, so pids of foreign user namespaces are
// refused. Errors: those of the system calls, with the path.
[[nodiscard]] Result<void> mount_into(pid_t pid, const std::string& root, const std::vector<oci::Mount>& mounts);

}  // namespace headgate::runtime
