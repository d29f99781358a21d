// Compares what the driver counts in a share's cgroups with the share's account. Finds memory that the driver lists
// under no process: of one that has ended and left it to others, or of clients of an MPS server. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "snapshot/snapshot.hpp"

namespace headgate::observe {

struct FenceRules {
  std::uint64_t slack_bytes = 64ull << 20;  // of each process, and once more: AuditRules::memory_slack_bytes
  std::uint32_t looks = 3;                  // in a row, as the audit's
  std::uint64_t least_ns = 1'500'000'000;   // from the first of them to the last
};

// Not thread-safe.
class FenceCheck {
 public:
  explicit FenceCheck(FenceRules rules = {}) : rules_(rules) {}
  // Returns an event audit.memory for each share and GPU on which the driver has counted more for some looks. It is
  // told again only after the two have agreed.
  [[nodiscard]] std::vector<snapshot::Event> look(const snapshot::Snapshot& snapshot);

 private:
  struct Case {
    std::uint32_t looks = 0;
    std::uint64_t since_ns = 0;
    bool told = false;
  };
  FenceRules rules_;
  std::map<std::pair<std::string, std::string>, Case> cases_;  // by share and GPU
};

}  // namespace headgate::observe
