// Finds a program, builds the environment that brings it into a share, starts it and acts for it: forwards signals and
// returns its status.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "config/config.hpp"

namespace headgate::cli {

struct Launch {
  std::string path;                      // the file to execute
  std::vector<std::string> arguments;    // argv, including argv[0]
  std::vector<std::string> environment;  // NAME=VALUE
  int cgroup_door = -1;  // OwnCgroup::door(): start the program in that cgroup if permitted, else in ours
};

// Returns the exit status to pass on: the child's, 128 + its signal, or 126 or 127 if it could not be executed (with a
// line on stderr). Errors: failed if fork fails.
//
// The child stays in our process group, so it gets the terminal's signals (Ctrl-C, Ctrl-Z) directly; only signals sent
// to us alone are forwarded. If the child stops under a terminal, we stop too, so that the shell sees its job stop.
[[nodiscard]] Result<int> run_and_wait(const Launch& launch);

// Replaces this process by the program of these words, the first of which is looked up in PATH. Returns only on errors.
[[nodiscard]] std::unexpected<Error> become(const std::vector<std::string>& words);

// What a program needs to find its share and its driver.
struct Entry {
  std::string base, share;  // the runtime directory, the share's name
  std::vector<std::string> uuids;
  std::string simulated_directory;  // empty: the real GPUs
  // Variables from the daemon; they override our environment.
  std::vector<std::pair<std::string, std::string>> variables = {};
  std::string waits_for = {};        // why its programs would wait for the GPU now; empty if they would not
  unsigned thread_percentage = 100;  // for an MPS client: the share's percentage of a GPU's SMs, 1..100
};

// Returns our environment without variables that set limits or choose GPUs, plus those that lead into the share. Errors
// if the limiter is not installed, or the loader cannot load it from where it is.
[[nodiscard]] Result<std::vector<std::string>> child_environment(const Entry& entry, const config::Config& config);

struct Program {
  std::string path;                   // the file to execute
  std::optional<std::string> unheld;  // why the limiter cannot be loaded into it; null if it can
};

// `status` is the exit status of `run`: 127 not found, 126 not executable.
struct ProgramError {
  int status;
  Error error;
};

// Finds a command as execvp does, and inspects the file (for a script, its interpreter).
[[nodiscard]] std::expected<Program, ProgramError> find_program(const std::string& command);

// A version 2 cgroup below that of this process, without limits. If it cannot be made (no version 2, no write
// permission, a container's own view), the program silently runs in our cgroup.
class OwnCgroup {
 public:
  // Where /proc and the cgroup file systems are mounted; tests pass other paths.
  explicit OwnCgroup(const std::string& proc = "/proc", const std::string& mounts = "/sys/fs/cgroup");
  // Removes the cgroup if it is empty. If not, or if we are killed, the next run in the same parent removes it.
  ~OwnCgroup();
  OwnCgroup(const OwnCgroup&) = delete;
  OwnCgroup& operator=(const OwnCgroup&) = delete;

  // Returns its cgroup.procs, close-on-exec: a process that writes "0" to it joins the cgroup (cgroups(7)). -1: none.
  [[nodiscard]] int door() const { return door_.get(); }

 private:
  std::string path_;
  UniqueFd door_;
};

}  // namespace headgate::cli
