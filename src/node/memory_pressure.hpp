// Allocations that lack memory, as limiters report them in the usage pages, and the daemon's response. It asks idle
// shares that hold memory in pools to give back what they do not use.
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
  std::uint32_t pid = 0;                     // in the share's own pid namespace, as reported; 0: unknown
  std::uint64_t bytes = 0, used_bytes = 0;   // used: by the share, contexts and code included
  std::optional<std::uint64_t> limit_bytes;  // of the share
  bool of_card = false;                      // the share has room, the card has none
  std::vector<std::string> asked;            // shares that were asked to trim
  bool news = false;                         // not reported in the last ten seconds
};

// Call it on the loop's thread.
class MemoryPressure {
 public:
  // A share that has used no GPU for so long is idle.
  static constexpr std::chrono::seconds kIdle{1};
  // What a tenant writes causes no action more often.
  static constexpr std::chrono::milliseconds kEvery{200};

  // Returns what allocations of that share have lacked since the last look. Asks the share's own processes to trim, as
  // some may be idle; if the card is full by `latest`, the card's idle shares too. `now`: of any epoch.
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
