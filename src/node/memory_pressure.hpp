// Allocations that lack memory, as their limiters tell of them in the usage pages, and what the daemon does about it:
// shares that hold memory in pools and do nothing are asked to give back what they do not use.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "snapshot/snapshot.hpp"
#include "tenancy/shares.hpp"

namespace headgate::node {

struct MemoryShortage {
  std::string share, uuid;
  std::uint32_t pid = 0;                     // in the share's own pid namespace, as it said; 0: not known
  std::uint64_t bytes = 0, used_bytes = 0;   // used: of the share, contexts and code among it
  std::optional<std::uint64_t> limit_bytes;  // of the share
  bool of_card = false;                      // the share has room, the card has none
  std::vector<std::string> asked;            // shares that were asked to trim
  bool news = false;                         // not told in the last ten seconds
};

// For the loop's thread.
class MemoryPressure {
 public:
  // A share is idle that has used no GPU for so long.
  static constexpr std::chrono::seconds kIdle{1};
  // What a tenant writes moves nobody more often.
  static constexpr std::chrono::milliseconds kEvery{200};

  // What allocations of that share lack since they were last looked at. The share's own processes are asked, in case
  // that some are idle; where the card is full by `latest`, the card's idle shares too. `now`: of any epoch.
  std::vector<MemoryShortage> look(tenancy::Shares& shares, const std::string& share, const snapshot::Snapshot& latest,
                                   std::chrono::nanoseconds now);
  void forget(const std::string& share);

 private:
  struct Seen {
    std::uint32_t epoch = 0;
    std::optional<std::chrono::nanoseconds> acted, told;
  };
  std::map<std::pair<std::string, std::string>, Seen> seen_;  // by share and GPU
};

}  // namespace headgate::node
