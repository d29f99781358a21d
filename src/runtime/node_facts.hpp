// What this node has for containers, as dockerd would find it.
#pragma once

#include <string>

#include "oci/docker_devices.hpp"

namespace headgate::runtime {

// The path of a program on PATH; empty: it is not there.
[[nodiscard]] std::string program_on_path(const std::string& name);

// Follows no link: a link is no device.
[[nodiscard]] Result<oci::HostNode> host_node(const std::string& path);

// Of the kernel's driver: "535.261.03"; empty: there is none, or it does not say. `text`: of
// /proc/driver/nvidia/version.
[[nodiscard]] std::string driver_version(std::string_view text);

// Programs, environment and driver; without CDI devices.
[[nodiscard]] oci::DockerNode this_node();

}  // namespace headgate::runtime
