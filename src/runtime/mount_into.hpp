// Mounts into a container that its runtime is just making.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.hpp"
#include "oci/cdi_document.hpp"

namespace headgate::runtime {

// Binds each of `mounts` (bind mounts; of the options ro, noexec, nosuid and nodev count) into the mount namespace of
// `pid`, below the container's root, which is `root` on the host, or already the namespace's own. This process is in
// that namespace afterwards. The kernel asks for CAP_SYS_ADMIN in the user namespace that owns the other one: a pid of
// a foreign user namespace is refused. Errors: of the system calls, with the path.
[[nodiscard]] Result<void> mount_into(pid_t pid, const std::string& root, const std::vector<oci::Mount>& mounts);

}  // namespace headgate::runtime
