// The snapshots of the last second: what is told per second is told since one of them, however often somebody looks.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "snapshot/snapshot.hpp"

namespace headgate::observe {

using NodeSnapshot = std::shared_ptr<const snapshot::Snapshot>;

// Not thread-safe.
class RecentSnapshots {
 public:
  // `snapshot` is newer than all before it.
  void add(NodeSnapshot snapshot);

  [[nodiscard]] const snapshot::Snapshot* last() const { return last_.get(); }
  // That from which a snapshot of `now_ns` (its taken_ns) tells rates: that nearest to a second ago. Null where there
  // is none.
  [[nodiscard]] const snapshot::Snapshot* second_ago(std::uint64_t now_ns) const;

  struct Since {
    const snapshot::Share* share = nullptr;  // null: the share was in none
    std::uint64_t elapsed_ns = 0;
  };
  // The same, or the first after it that shows the share.
  [[nodiscard]] Since second_ago(const snapshot::Share& share, std::uint64_t now_ns) const;

 private:
  NodeSnapshot last_;
  std::deque<NodeSnapshot> kept_;  // oldest first, apart from each other by a tenth of a second or more
};

// The share as another snapshot shows it, whose shares are sorted by name; null where it shows none, or a former one of
// that name.
[[nodiscard]] const snapshot::Share* same_share_in(const snapshot::Snapshot& snapshot, const snapshot::Share& share);

}  // namespace headgate::observe
