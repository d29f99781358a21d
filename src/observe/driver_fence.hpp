// The driver's own limits of memory: from release 615 on it refuses memory to all processes of a cgroup together,
// whether the limiter is in them or not. Sets them for the cgroups of shares, reads them back, and takes them away.
// Facts: NVIDIA's "MPS v3 Memory Partitioning" and NVML's reference of release 615.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nvml/library.hpp"
#include "observe/event_log.hpp"
#include "observe/ledgers.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::observe {

// A cgroup with processes of one share alone, and what they may have of one GPU, contexts included.
struct FenceTarget {
  std::string share;  // empty: of several shares, so no limit is right
  std::string uuid;
  std::string cgroup;  // its directory
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> pids;  // of the share's processes in it
};

// What the driver answered for a target.
struct Fence {
  FenceTarget target;
  bool holds = false;  // the driver's limit was read back
  std::uint64_t limit_bytes = 0, used_bytes = 0;
  std::string problem = {};  // why it does not hold; empty if it does
};

// Returns the driver's limit for a share's: whole MiB, as NVIDIA's container hook sets them, rounded up.
[[nodiscard]] std::uint64_t fence_bytes(std::uint64_t limit_bytes);

// For the observer's thread only.
class DriverFence {
 public:
  // `notes`: a file that names the cgroups which may have a limit of ours, written before each is set. A daemon that
  // follows a killed one reads it.
  DriverFence(std::string notes, EventLog& events) : notes_file_(std::move(notes)), events_(&events) { read_notes(); }

  // Makes the limits what `targets` say. A cgroup that had one keeps it while it has processes and its share is in
  // `ledgers`: those that remain may be ones that the limiter does not hold. Else its limit is removed. An event tells
  // each problem once. Returns nothing where the driver has no such limits.
  std::vector<Fence> hold(const nvml::Library& nvml, const std::vector<snapshot::Gpu>& gpus,
                          std::vector<FenceTarget> targets, const std::vector<LedgerSnapshot>& ledgers);
  // Returns whether the driver has such limits, or is of a release that should.
  [[nodiscard]] static bool may_offer(const nvml::Library& nvml);
  // Whether the driver has such limits, as seen by the last hold().
  [[nodiscard]] bool is_offered() const { return offered_; }

 private:
  using Key = std::pair<std::string, std::string>;  // GPU, cgroup
  [[nodiscard]] Fence hold_one(const nvml::Library& nvml, const std::vector<snapshot::Gpu>& gpus,
                               const FenceTarget& target);
  void keep_occupied(std::vector<FenceTarget>& targets, const std::vector<LedgerSnapshot>& ledgers) const;
  void clear_others(const nvml::Library& nvml, const std::vector<snapshot::Gpu>& gpus,
                    const std::vector<FenceTarget>& targets);
  [[nodiscard]] bool note(const FenceTarget& target);
  void read_notes();
  [[nodiscard]] bool write_notes() const;
  void tell(const Fence& fence);

  const std::string notes_file_;
  EventLog* events_;
  bool offered_ = false;
  std::map<Key, std::string> noted_;                   // the share of each
  std::map<std::string, std::set<std::string>> told_;  // problems that were told of, by share
};

// Compares what the driver counts in a share's cgroups with the share's account. Finds memory that the driver lists
// under no process: of one that has ended and left it to others, or of clients of an MPS server. Pure.

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
