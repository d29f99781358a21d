// Acts on a process that the audit has named, as the operator chose: does nothing, freezes it, or kills it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::node {

enum class AuditPolicy { warn, freeze, kill };

// Parses "warn", "freeze" or "kill". Errors: usage.
[[nodiscard]] Result<AuditPolicy> parse_audit_policy(std::string_view text);

// Where /proc and the cgroup file systems lie; tests use others.
struct Roots {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

// A process as the audit judged it: its pid may be reused before the daemon acts.
struct ProcessRef {
  std::uint32_t pid = 0, start_time = 0;  // as of identity::Process
};

// A frozen cgroup: the file that thaws it, and what to write there.
struct Frozen {
  std::string cgroup, file, thaw;
};

struct EnforcementResult {
  std::string text;              // "was frozen with its cgroup /x"
  std::optional<Frozen> frozen;  // if it was frozen
};

// Applies `policy` to one process and returns what was done. Does nothing if its start time is unknown or not the
// judged one. Kill uses the pidfd. Freeze uses the cgroup (version 2, or version 1's freezer) if it is the process's
// alone: not the root, a login session, or one that holds us, init, or other users' processes. Else the process is
// moved into a new one below it and frozen alone; what it was charged stays in the old one. Errors: denied, failed,
// unsupported; the process runs on then.
[[nodiscard]] Result<EnforcementResult> enforce(AuditPolicy policy, const ProcessRef& process_ref,
                                                const Roots& roots = {});

// Shows in snapshots the processes that the audit has frozen and that still are. Not thread-safe.
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
