// Reads the node's GPUs from NVML for `headgate run`.
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

// The NVML library to use. A simulated node's directory must exist.
struct Source {
  std::string library = "libnvidia-ml.so.1";
  std::string simulated_directory;  // empty: the real GPUs
};

// Errors: unreachable (no driver library, or no answer), with a hint that names --sim.
[[nodiscard]] Result<Gpus> read_gpus(const Source& source);

}  // namespace headgate::install
