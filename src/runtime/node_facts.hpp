// Facts about this node for containers, as dockerd would find them.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "oci/cdi_cache.hpp"
#include "oci/docker_devices.hpp"
#include "oci/gpu_inventory.hpp"

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

// The directories that engines read, lower priority first.
inline constexpr const char* kStaticCdiDirectory = "/etc/cdi";
inline constexpr const char* kDynamicCdiDirectory = "/var/run/cdi";

[[nodiscard]] Result<oci::Document> read_cdi_file(const std::string& path);

// Returns the files of one directory by name, without subdirectories. Errors: those of reading the directory.
[[nodiscard]] Result<std::vector<oci::CdiFile>> read_cdi_directory(const std::string& path, std::size_t priority);

// Finds NVIDIA's driver in /proc, /dev and the library directories. `root`: prefix of these paths, "" for this machine.
// Returns an empty inventory without a driver.
[[nodiscard]] oci::GpuInventory read_gpu_inventory(const std::string& root);

// Returns a text that changes with driver, GPUs and control nodes; cheap enough for each second. Empty: no driver.
[[nodiscard]] std::string gpu_inventory_stamp(const std::string& root);

}  // namespace headgate::runtime
