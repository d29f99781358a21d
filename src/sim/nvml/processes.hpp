// Processes listed on a device, for the public lists and the private one.
#pragma once

#include <string>
#include <vector>

#include "sim/nvml/library.hpp"
#include "sim/nvml/wide.hpp"

namespace headgate::sim::nvml {

// Returns the pid to list: the one that the caller's /proc shows, else the one that the process itself sees.
[[nodiscard]] std::uint32_t shown_pid(const Account& account);

// Returns the processes with a context on the device, in order of pid.
[[nodiscard]] std::vector<const Account*> listed_by_pid(const DeviceView& view);
[[nodiscard]] abi::nvmlProcessDetail_v1_t detail_of(const Account& account);
// Returns argv[0] from /proc if available, else the node's name for the process.
[[nodiscard]] std::string name_of(const Account& account);

}  // namespace headgate::sim::nvml
