// Facts about this node for containers, as dockerd would find them.
#pragma once

#include <string>

#include "oci/docker_devices.hpp"

namespace headgate::runtime {

// Returns the path of a program on PATH; empty if missing. `but_this`: leaves out this program's own file.
[[nodiscard]] std::string program_on_path(const std::string& name, bool but_this = false);

// Follows no link, because a link is not a device.
[[nodiscard]] Result<oci::HostNode> host_node(const std::string& path);

// Returns the kernel driver's version, such as "535.261.03"; empty without a driver. `text`: the content of
// /proc/driver/nvidia/version.
[[nodiscard]] std::string driver_version(std::string_view text);

// Returns programs, environment and driver, without CDI devices.
[[nodiscard]] oci::DockerNode this_node();

}  // namespace headgate::runtime
