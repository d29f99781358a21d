// Reports GPUs that have stopped answering or that the driver no longer counts, and those that answer again. Each is
// reported once, in the order in which it was seen.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "snapshot/snapshot.hpp"

namespace headgate::observe {

// Not thread-safe.
class LostGpus {
 public:
  // `gpus`: as the driver lists them now; one that does not answer has no UUID, and is known by the driver's index.
  [[nodiscard]] std::vector<snapshot::Event> look(const std::vector<snapshot::Gpu>& gpus);

 private:
  struct Known {
    std::uint32_t index = 0;  // where it was last
    bool lost = false;
  };
  std::map<std::string, Known> known_;  // by UUID
  std::set<std::uint32_t> nameless_;    // indices of those that have never answered
  bool looked_ = false;
};

}  // namespace headgate::observe
