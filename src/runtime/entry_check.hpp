// Whether the daemon lets a container into its share now: asked before the container is made.
#pragma once

#include <string>

#include "oci/container_config.hpp"

namespace headgate::runtime {

// Checks whether the share admits the container's user now. `directory`: the share's, RUNTIME/shares/NAME; the daemon's
// control socket lies in RUNTIME/control. If no daemon listens there, or the caller may not ask it, the container
// starts, and its programs register themselves. Returns a warning or an empty text: without a daemon and with the fail
// policy "open" they run without limits until a daemon runs. Errors: the daemon's; unreachable if it listens but does
// not answer within 2 s.
[[nodiscard]] Result<std::string> check_entry(const std::string& directory, const oci::ContainerConfig& config);

}  // namespace headgate::runtime
