// Processes that the audit has frozen and that still are: what a snapshot says of them.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "node/enforce.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::node {

// For one thread at a time.
class FrozenProcesses {
 public:
  explicit FrozenProcesses(Roots roots = {}) : roots_(std::move(roots)) {}

  void add(const ProcessRef& process_ref, Frozen frozen);
  // Writes `freeze` of each that still stands still. Who has ended, left its cgroup, or was let go on is forgotten:
  // nobody tells us.
  void write_into(snapshot::Snapshot& snapshot);

 private:
  struct FrozenProcess {
    std::uint32_t start_time = 0;
    Frozen frozen;
  };
  [[nodiscard]] bool still_stands(std::uint32_t pid, const FrozenProcess& entry) const;

  Roots roots_;
  std::map<std::uint32_t, FrozenProcess> frozen_;  // by pid
};

}  // namespace headgate::node
