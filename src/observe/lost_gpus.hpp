// A GPU that has stopped to answer, or that the driver counts no more, and one that answers again: told once, in the
// order in which it was seen.
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
  // `gpus`: as the driver tells of them now; who does not answer tells no UUID, and is known by the driver's index.
  [[nodiscard]] std::vector<snapshot::Event> look(const std::vector<snapshot::Gpu>& gpus);

 private:
  struct Known {
    std::uint32_t index = 0;  // where it was last
    bool lost = false;
  };
  std::map<std::string, Known> known_;  // by UUID
  std::set<std::uint32_t> nameless_;    // indices of those that have not answered once
  bool looked_ = false;
};

}  // namespace headgate::observe
