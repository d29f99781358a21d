// The node's GPUs as `headgate run` plans with them, from what NVML tells.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::install {

struct Gpus {
  std::vector<snapshot::Gpu> list;
  std::string driver_version;
  bool simulated = false;
};

// Which NVML to ask. A simulated node's directory must exist.
struct Source {
  std::string library = "libnvidia-ml.so.1";
  std::string simulated_directory;  // empty: the machine's own
};

// Errors: unreachable (no driver library, or it does not answer), with a hint that names --sim.
[[nodiscard]] Result<Gpus> read_gpus(const Source& source);

}  // namespace headgate::install
