// A process as /proc tells it. `proc` is where /proc lies ("/proc" on a host): tests and containers have others.
#pragma once

#include <dirent.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "identity/cgroup.hpp"

namespace headgate::identity {

struct Process {
  std::uint32_t pid = 0;            // as the reader of /proc sees it
  std::uint32_t namespace_pid = 0;  // as the process sees itself: the last of NSpid
  std::uint32_t pidns_inode = 0;    // of its pid namespace; 0 where we may not ask
  std::uint32_t start_time = 0;     // as the ledger's slots have it: ledger::host_start_time(); 0: not known
  std::uint32_t uid = 0;            // effective
  bool ended = false;               // there is nothing left of it but its number, which its parent has not taken back
  std::string command{};            // at most 15 bytes, control characters replaced
  std::uint32_t parent =
      0;  // who waits for its end, as the reader of /proc sees it; 0: not known, or outside what it sees

  friend bool operator==(const Process&, const Process&) = default;
};

// /proc/PID/status and /proc/PID/stat, from their text; the start time as it stands there. Errors: failed, naming what
// is missing.
[[nodiscard]] Result<Process> parse_process(std::string_view status, std::string_view stat);

// Errors: failed where there is no such process (any more), denied where /proc hides it.
[[nodiscard]] Result<Process> read_process(const std::string& proc, std::uint32_t pid);
[[nodiscard]] Result<std::vector<CgroupLine>> read_cgroups(const std::string& proc, std::uint32_t pid);

// The end of the stack of the program that the process runs (field 28 of stat): exec() puts another there, and a
// process keeps its number and start time through it. 0: not told.
[[nodiscard]] std::uint64_t program_mark(const std::string& proc, std::uint32_t pid);

// All processes that can be looked at now.
struct ProcessList {
  std::vector<Process> all;
  bool complete = true;  // false: /proc hides some of them, so who is not in it need not be dead
};
[[nodiscard]] ProcessList list_processes(const std::string& proc);

// The same, a part at a time: a process takes some 20 us to read, and a node may have thousands. Who was there at the
// start and has not ended since is in it; of those that came meanwhile some are. Holds a descriptor.
class Listing {
 public:
  explicit Listing(const std::string& proc);
  // Reads on, `most` processes at most; false where more are left. Not to be asked again after true.
  [[nodiscard]] bool read(std::size_t most);
  [[nodiscard]] ProcessList take() { return std::move(list_); }

 private:
  std::string proc_;
  std::unique_ptr<DIR, int (*)(DIR*)> folder_;
  ProcessList list_;
};

// The process that a ledger slot names, by its pid in its own namespace and its start time.
struct Search {
  const Process* found = nullptr;
  bool certain = true;  // false: not found, but it may live all the same
};
[[nodiscard]] Search find_process(const ProcessList& list, std::uint32_t pidns_inode, std::uint32_t namespace_pid,
                                  std::uint32_t start_time);

// A whole small file. Errors: of open() and read(), and failed past 1 MiB.
[[nodiscard]] Result<std::string> read_file(const std::string& path);

}  // namespace headgate::identity
