// Who is listed on a device, for the public lists and the private one.
#pragma once

#include <string>
#include <vector>

#include "sim/nvml/library.hpp"
#include "sim/nvml/wide.hpp"

namespace headgate::sim::nvml {

// Processes with a context on the device, by rising pid.
[[nodiscard]] std::vector<const Account*> listed_by_pid(const DeviceView& view);
[[nodiscard]] abi::nvmlProcessDetail_v1_t detail_of(const Account& account);
// The program's first word where /proc tells it, else the name that the node has.
[[nodiscard]] std::string name_of(const Account& account);

}  // namespace headgate::sim::nvml
