// What the driver's accounting says of processes that have ended. It is read where an administrator has switched it on
// (nvidia-smi -am 1), and never switched on here: it costs every process on the card.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nvml/library.hpp"

namespace headgate::nvml {

struct Ended {
  std::string uuid;  // of the GPU
  std::uint32_t pid = 0;
  std::uint64_t peak_bytes = 0;
  double busy_ratio = 0;  // of its life
  std::uint64_t lived_ms = 0;
  friend bool operator==(const Ended&, const Ended&) = default;
};

// Who has ended since the last look, each once. Not thread-safe.
class AccountingWatch {
 public:
  // `running`: processes that the driver lists on that GPU now; a number that came back is another process. The first
  // look at a GPU finds nobody: those ended before.
  std::vector<Ended> look(const Library& library, abi::nvmlDevice_t device, const std::string& uuid,
                          const std::set<std::uint32_t>& running);

 private:
  std::map<std::string, std::set<std::uint32_t>> known_;  // ended and told, by GPU
};

}  // namespace headgate::nvml
