// Puts a started program into a separate cgroup, so that it can be frozen without freezing its neighbours.
#pragma once

#include <string>

#include "base/unique_fd.hpp"

namespace headgate::cli {

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
