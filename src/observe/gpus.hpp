// Reads from NVML the node's GPUs and the processes on them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "nvml/library.hpp"
#include "observe/driver_memory.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::observe {

struct DriverSnapshot : DriverMemory {
  std::string driver_version;
  std::vector<snapshot::Gpu> gpus;  // by index; what only ledgers know is empty
};

// Reads all GPUs; processes' utilisation from samples later than this (microseconds since the epoch; 0: all that NVML
// keeps). Errors: unreachable (the driver does not count its GPUs). A GPU that does not answer (lost) is shown with
// what is known.
[[nodiscard]] Result<DriverSnapshot> read_driver(const nvml::Library& nvml, std::uint64_t samples_since_us);

}  // namespace headgate::observe
