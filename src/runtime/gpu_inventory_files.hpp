// What a node has of NVIDIA's driver: from /proc, /dev and the directories of libraries.
#pragma once

#include <string>

#include "oci/gpu_inventory.hpp"

namespace headgate::runtime {

// `root`: where they lie, "" for this machine. Without a driver it is empty.
[[nodiscard]] oci::GpuInventory read_gpu_inventory(const std::string& root);

// Another text whenever another driver, GPU or control node is there; cheap enough for each second. Empty: no driver.
[[nodiscard]] std::string gpu_inventory_stamp(const std::string& root);

}  // namespace headgate::runtime
