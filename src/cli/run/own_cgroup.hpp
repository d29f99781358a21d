// A cgroup of its own for a program that a run starts: it can then be frozen without whoever else is where it was
// started.
#pragma once

#include <string>

#include "base/unique_fd.hpp"

namespace headgate::cli {

// Of version 2, below the one that this process is in, with no limits of its own. Where none can be made (no version 2,
// no right to write there, a container's own view of it) there is none, and nobody is told: the program runs where we
// are.
class OwnCgroup {
 public:
  // Where /proc and the cgroup file systems lie; tests have others.
  explicit OwnCgroup(const std::string& proc = "/proc", const std::string& mounts = "/sys/fs/cgroup");
  // Removes it where nobody is left in it. Else, and where we are killed, the next run started in the same place does.
  ~OwnCgroup();
  OwnCgroup(const OwnCgroup&) = delete;
  OwnCgroup& operator=(const OwnCgroup&) = delete;

  // Its cgroup.procs, close-on-exec: who writes "0" there is in it (cgroups(7)). -1: there is none.
  [[nodiscard]] int door() const { return door_.get(); }

 private:
  std::string path_;
  UniqueFd door_;
};

}  // namespace headgate::cli
