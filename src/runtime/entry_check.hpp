// Whether the daemon lets a container into its share now: asked before the container is made.
#pragma once

#include <string>

#include "oci/container_config.hpp"

namespace headgate::runtime {

// `directory`: the share's, RUNTIME/shares/NAME; the daemon's control socket lies in RUNTIME/control. Where no daemon
// listens there, or the caller may not ask it, the container starts: its programs register themselves, and the share's
// pages hold them meanwhile. Errors: the daemon's; unreachable, where one listens and does not answer within 2 s.
[[nodiscard]] Result<void> check_entry(const std::string& directory, const oci::ContainerConfig& config);

}  // namespace headgate::runtime
