// Reads the driver's accounting of ended processes, if an administrator has enabled it (nvidia-smi -am 1). Never
// enables it, because it costs every process on the GPU.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "nvml/library.hpp"

namespace headgate::nvml {

struct Ended {
  std::string uuid;  // the GPU's
  std::uint32_t pid = 0;
  std::uint64_t peak_bytes = 0;
  double busy_ratio = 0;  // over its lifetime
  std::uint64_t lived_ms = 0;
  friend bool operator==(const Ended&, const Ended&) = default;
};

// Returns processes that ended since the last call, each once. Not thread-safe.
class AccountingWatch {
 public:
  // `running`: processes the driver lists on that GPU now; a PID that reappears is a new process. The first call for a
  // GPU returns nothing, because those processes ended before.
  std::vector<Ended> look(const Library& library, abi::nvmlDevice_t device, const std::string& uuid,
                          const std::set<std::uint32_t>& running);

 private:
  std::map<std::string, std::set<std::uint32_t>> known_;  // ended and already returned, by GPU
};

}  // namespace headgate::nvml
