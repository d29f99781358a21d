// The driver's snapshot and the ledgers' joined into one snapshot. Pure: everything that was looked up is handed in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "observe/gpus.hpp"
#include "observe/ledgers.hpp"
#include "observe/recent.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::observe {

// What is known of a process beyond driver and ledger: from /proc and its cgroup.
struct ProcessFacts {
  std::uint32_t uid = 0;
  std::uint32_t start_time = 0;  // with its number it is this process's name for ever; 0: not known
  std::string user, command, where;
  std::string program;  // its file's name, where nobody but root can have given it; else empty
  // Set where an ordinary user runs it: the same of root's process that started it; empty where none did.
  std::optional<std::string> program_parent = {};
};

struct JoinInput {
  snapshot::Node node;  // name, version, times; the counts are filled here
  DriverSnapshot driver;
  std::vector<LedgerSnapshot> ledgers;
  std::vector<std::vector<std::uint32_t>> host_pids;  // by ledger and seat: the seat's pid on the host, 0 where unknown
  std::set<std::uint32_t> claimed;                    // of these pids: not more than the seat's word
  std::map<std::uint32_t, ProcessFacts> facts;        // by host pid
  std::uint64_t taken_unix_ns = 0, taken_ns = 0;
};

// Rates, idle times and what a share waits for are told since snapshots of before, of the same daemon.
// Shares + reserved + unattributed + free = NVML's total on every GPU, within what moved between two readings.
[[nodiscard]] snapshot::Snapshot join(const JoinInput& input, const RecentSnapshots& before);

}  // namespace headgate::observe
