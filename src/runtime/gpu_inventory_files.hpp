// Finds NVIDIA's driver on a node: in /proc, /dev and the library directories.
#pragma once

#include <string>

#include "oci/gpu_inventory.hpp"

namespace headgate::runtime {

// `root`: prefix of these paths, "" for this machine. Returns an empty inventory without a driver.
[[nodiscard]] oci::GpuInventory read_gpu_inventory(const std::string& root);

// Returns a text that changes with driver, GPUs and control nodes; cheap enough for each second. Empty: no driver.
[[nodiscard]] std::string gpu_inventory_stamp(const std::string& root);

}  // namespace headgate::runtime
