// Who is listed on a device, for the public lists and the private one.
#pragma once

#include <string>
#include <vector>

#include "sim/nvml/library.hpp"
#include "sim/nvml/wide.hpp"

namespace headgate::sim::nvml {

// The number under which a process is listed: the caller's, where its /proc shows the process, else the process's own.
[[nodiscard]] std::uint32_t shown_pid(const Account& account);

// Processes with a context on the device, by rising pid.
[[nodiscard]] std::vector<const Account*> listed_by_pid(const DeviceView& view);
[[nodiscard]] abi::nvmlProcessDetail_v1_t detail_of(const Account& account);
// The program's first word where /proc tells it, else the name that the node has.
[[nodiscard]] std::string name_of(const Account& account);

}  // namespace headgate::sim::nvml
