// A GPU that has stopped to answer, and one that answers again: told once, in the order in which it was seen.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "snapshot/snapshot.hpp"

namespace headgate::observe {

// By the driver's index, for who does not answer tells no UUID. Not thread-safe.
class LostGpus {
 public:
  // `gpus`: as the driver tells of them now.
  [[nodiscard]] std::vector<snapshot::Event> look(const std::vector<snapshot::Gpu>& gpus);

 private:
  struct Known {
    std::string uuid;  // "" where it has not answered once
    bool lost = false;
  };
  std::map<std::uint32_t, Known> known_;
};

}  // namespace headgate::observe
