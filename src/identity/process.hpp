// Reads processes from /proc. `proc` is the path of /proc ("/proc" on a host); tests and containers use others.
#pragma once

#include <dirent.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "identity/cgroup.hpp"

namespace headgate::identity {

struct Process {
  std::uint32_t pid = 0;            // in the pid namespace of /proc's reader
  std::uint32_t namespace_pid = 0;  // in its own pid namespace: the last number of NSpid
  std::uint32_t pidns_inode = 0;    // its pid namespace; 0 if we lack permission
  std::uint32_t start_time = 0;     // as in the ledger's slots: ledger::host_start_time(); 0: unknown
  std::uint32_t uid = 0;            // effective
  bool ended = false;               // it is a zombie that its parent has not reaped
  std::string command{};            // at most 15 bytes, control characters replaced
  std::uint32_t parent = 0;         // parent's PID for /proc's reader; 0: unknown or not visible

  friend bool operator==(const Process&, const Process&) = default;
};

// Parses /proc/PID/status and /proc/PID/stat; the start time is kept as written. Errors: failed, naming what is
// missing.
[[nodiscard]] Result<Process> parse_process(std::string_view status, std::string_view stat);

// Errors: failed if the process does not exist (any more), denied if /proc hides it.
[[nodiscard]] Result<Process> read_process(const std::string& proc, std::uint32_t pid);
[[nodiscard]] Result<std::vector<CgroupLine>> read_cgroups(const std::string& proc, std::uint32_t pid);

// Returns the stack's start address (field 28 of stat), which identifies the running program: exec() changes it, while
// PID and start time stay. 0: unknown.
[[nodiscard]] std::uint64_t program_mark(const std::string& proc, std::uint32_t pid);

// The processes that can be read at present.
struct ProcessList {
  std::vector<Process> all;
  bool complete = true;  // false: /proc hides some, so a missing process may still be alive
};
[[nodiscard]] ProcessList list_processes(const std::string& proc);

// Lists processes in parts, because reading one takes about 20 us and a node may have thousands. Contains every process
// that exists from start to end, and some that started meanwhile. Holds a descriptor.
class Listing {
 public:
  explicit Listing(const std::string& proc);
  // Reads at most `most` further processes; returns false if more are left. Do not call it again after true.
  [[nodiscard]] bool read(std::size_t most);
  [[nodiscard]] ProcessList take() { return std::move(list_); }

 private:
  std::string proc_;
  std::unique_ptr<DIR, int (*)(DIR*)> folder_;
  ProcessList list_;
};

// Finds the process of a ledger slot by its PID in its own namespace and its start time.
struct Search {
  const Process* found = nullptr;
  bool certain = true;  // false: not found, but it may be alive
};
[[nodiscard]] Search find_process(const ProcessList& list, std::uint32_t pidns_inode, std::uint32_t namespace_pid,
                                  std::uint32_t start_time);

// Reads a small file. Errors: those of open() and read(), and failed beyond 1 MiB.
[[nodiscard]] Result<std::string> read_file(const std::string& path);

// Checks one process for one file that it may have mapped. A process may have any number of mappings, and the kernel
// takes about a microsecond for each, so callers that must not block read in parts. Finds the file by inode or by path
// as /proc shows it (overlay file systems show one or the other). Holds a descriptor, so it stays with that process
// even if its PID is reused.
class MapsSearch {
 public:
  enum class Answer {
    yes,
    no,
    hidden,   // no permission, the process has ended, or it has too many mappings to read
    not_yet,  // the byte budget is used up: call again
  };
  // Limit per process, which could otherwise add mappings faster than they are read.
  static constexpr std::size_t kMaxBytes = 64u << 20;

  // `proc`: see process.hpp. `inode` 0: unknown.
  MapsSearch(const std::string& proc, std::uint32_t pid, std::uint64_t inode, std::string path);

  // Reads at most `bytes` more and subtracts what it read. After any answer but not_yet, do not call it again.
  [[nodiscard]] Answer look(std::size_t& bytes);

  [[nodiscard]] std::uint32_t pid() const { return pid_; }

 private:
  [[nodiscard]] bool is_it(std::string_view line) const;
  [[nodiscard]] bool found_in(std::string_view text);

  UniqueFd maps_;
  std::uint32_t pid_;
  std::uint64_t inode_;
  std::string path_;
  std::string rest_;  // the start of an incomplete line
  std::size_t read_ = 0;
};

}  // namespace headgate::identity
