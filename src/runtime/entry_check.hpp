// Whether the daemon lets a container into its share now: asked before the container is made.
#pragma once

#include <string>

#include "oci/container_config.hpp"

namespace headgate::runtime {

// `directory`: the share's, RUNTIME/shares/NAME; the daemon's control socket lies in RUNTIME/control. Where no daemon
// listens there, or the caller may not ask it, the container starts: its programs register themselves. Returns what to
// warn of: without a daemon and with the fail policy "open" they run unheld until one is there. Errors: the daemon's;
// unreachable, where one listens and does not answer within 2 s.
[[nodiscard]] Result<std::string> check_entry(const std::string& directory, const oci::ContainerConfig& config);

}  // namespace headgate::runtime
