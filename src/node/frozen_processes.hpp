// Finds out whether a process is frozen (SIGSTOP or a frozen cgroup): it then accounts for nothing it has in flight.
// Shows in snapshots the processes that the audit has frozen and that still are.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "node/enforce.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::node {

// Not thread-safe.
class FrozenProcesses {
 public:
  explicit FrozenProcesses(Roots roots = {}) : roots_(std::move(roots)) {}

  void add(const ProcessRef& process_ref, Frozen frozen);
  // Writes `freeze` of each that is still frozen. Forgets those that ended, left their cgroup or were thawed, as
  // nothing else reports that.
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

// Returns whether its main thread is stopped, by a signal or a tracer, or it is in a frozen cgroup, of version 2 or
// version 1's freezer. False if that cannot be seen.
[[nodiscard]] bool is_frozen(std::uint32_t pid, const Roots& roots = {});

}  // namespace headgate::node
