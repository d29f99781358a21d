// The snapshots of the last second: rates are computed from one of them, however often clients look.
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
  // `snapshot` must be newer than all before it.
  void add(NodeSnapshot snapshot);

  [[nodiscard]] const snapshot::Snapshot* last() const { return last_.get(); }
  // Returns the snapshot from which one taken at `now_ns` computes rates: the nearest to a second ago. Null if there is
  // none.
  [[nodiscard]] const snapshot::Snapshot* second_ago(std::uint64_t now_ns) const;

  struct Since {
    const snapshot::Share* share = nullptr;  // null: the share was in none
    std::uint64_t elapsed_ns = 0;
  };
  // As above, or the first after it that shows the share.
  [[nodiscard]] Since second_ago(const snapshot::Share& share, std::uint64_t now_ns) const;

 private:
  NodeSnapshot last_;
  std::deque<NodeSnapshot> kept_;  // oldest first, at least a tenth of a second apart
};

// Returns the share as another snapshot shows it, in which shares are sorted by name; null if it shows none, or a
// former one of that name.
[[nodiscard]] const snapshot::Share* same_share_in(const snapshot::Snapshot& snapshot, const snapshot::Share& share);

}  // namespace headgate::observe
