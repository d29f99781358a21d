// Reports GPUs that have stopped answering or that the driver no longer counts, and those that answer again. Each is
// reported once, in the order in which it was seen.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
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

// Reports a driver that has stopped answering, and one that answers again: once each.

// A longer silence is more than a slow answer.
inline constexpr std::chrono::seconds kDriverSilence{10};

// Not thread-safe.
class DriverSilence {
 public:
  // `silence`: since it last answered, or was due to be loaded again after its release.
  [[nodiscard]] std::optional<snapshot::Event> look(std::chrono::nanoseconds silence);

 private:
  std::chrono::nanoseconds longest_{0};  // of the silence that was reported; 0: none was
};

}  // namespace headgate::observe
