// Joins the driver's snapshot and the ledgers' into one. Pure: everything that was looked up is an argument.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "observe/driver_fence.hpp"
#include "observe/gpus.hpp"
#include "observe/ledgers.hpp"
#include "observe/recent.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::observe {

// What is known of a process beyond driver and ledger: from /proc and its cgroup.
struct ProcessFacts {
  std::uint32_t uid = 0;
  std::uint32_t start_time = 0;  // with the pid it identifies the process for ever; 0: unknown
  std::string user, command, where;
  std::string program;  // its file's name, if only root can have given it; else empty
  // Set if an ordinary user runs it: the same of root's process that started it; empty if none did.
  std::optional<std::string> program_parent = {};
};

struct JoinInput {
  snapshot::Node node;  // name, version, times; the counts are filled here
  DriverSnapshot driver;
  std::vector<LedgerSnapshot> ledgers;
  std::vector<std::vector<std::uint32_t>> host_pids;  // by ledger and seat: the seat's pid on the host; 0: unknown
  std::set<std::uint32_t> claimed;                    // of these pids: those that only the seat claims
  std::map<std::uint32_t, ProcessFacts> facts;        // by host pid
  std::vector<Fence> fences = {};                     // the driver's own limits
  std::uint64_t taken_unix_ns = 0, taken_ns = 0;

  [[nodiscard]] std::uint32_t host_pid(std::size_t ledger, std::size_t seat) const {
    return ledger < host_pids.size() && seat < host_pids[ledger].size() ? host_pids[ledger][seat] : 0;
  }
};

// Computes rates, idle times and waits since earlier snapshots of the same daemon. Shares + reserved + unattributed +
// free = NVML's total on every GPU, within what moved between two readings.
[[nodiscard]] snapshot::Snapshot join(const JoinInput& input, const RecentSnapshots& before);

}  // namespace headgate::observe
