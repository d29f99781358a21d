// Checks whether shares had what they were promised of GPUs: fills the figures of each snapshot, and reports a promise
// that was not kept, with the cause. Pure: takes snapshots and the arbiter's counts, returns events.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "observe/promise_window.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::observe {

// A promise is not kept if more than this of the GPU is missing over a whole window.
inline constexpr double kShortRatio = 0.02;

// Not thread-safe.
class Promises {
 public:
  // Returns how long the share has wanted the GPU with that UUID, in ns, as the arbiter counts it.
  using Wanted = std::function<std::int64_t(const std::string& share, const std::string& uuid)>;

  // Fills had_ratio, wanted_ratio, short_ratio, short_ns and short_cause of all shares. `now` has overcommit of the
  // shares, and policies in force. Returns an event share.short for each share and GPU that lacked more than
  // kShortRatio of its promise over kSpanNs, and over the second half of them too: programs that start have less at
  // first. The next one for them comes with another cause, or when the promise has been kept for kSpanNs since.
  [[nodiscard]] std::vector<snapshot::Event> look(snapshot::Snapshot& now, const Wanted& wanted);
  // Fills the same figures, from the last look.
  void fill(snapshot::Snapshot& now) const;

 private:
  struct Track {
    std::uint64_t generation = 0;  // of the share's pages
    PromiseWindow window;
    bool seen = false;
    std::bitset<16> told;       // causes that were told since the promise was kept last
    std::uint64_t kept_ns = 0;  // for how long the promise has been kept since it was told that it was not
    std::string cause;
  };
  using Key = std::pair<std::string, std::string>;  // share, UUID

  void sample(snapshot::Snapshot& now, const Wanted& wanted, std::map<Key, std::uint64_t>& passed);

  std::map<Key, Track> tracks_;
};

}  // namespace headgate::observe
