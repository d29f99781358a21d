#include "cli/run/launch.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/run_cgroup.hpp"

namespace headgate::cli {
namespace {

namespace fs = std::filesystem;

bool has_line(const std::string& path, const std::string& wanted) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line == wanted) return true;
  return false;
}

// Returns the directory of our cgroup; empty if there is none.
std::string present_cgroup(const std::string& proc, const std::string& mounts) {
  std::error_code failed;
  const bool hybrid = fs::exists(mounts + "/unified/cgroup.procs", failed);
  std::ifstream file(proc + "/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/")) continue;
    const std::string path = mounts + (hybrid ? "/unified" : "") + line.substr(3);
    // The mount may show another cgroup namespace, where this path is a different cgroup. A program placed there would
    // escape the limits that apply to us.
    return has_line(path + "/cgroup.procs", std::to_string(::getpid())) ? path : std::string();
  }
  return {};
}

// Removes cgroups left by runs that were killed. rmdir fails if a process is still inside.
void remove_left(const std::string& parent) {
  std::error_code failed;
  for (fs::directory_iterator entry(parent, failed), end; !failed && entry != end; entry.increment(failed)) {
    const auto pid = static_cast<pid_t>(run_cgroup_pid(entry->path().filename().native()).value_or(0));
    if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) ::rmdir(entry->path().c_str());
  }
}

}  // namespace

OwnCgroup::OwnCgroup(const std::string& proc, const std::string& mounts) {
  const std::string parent = present_cgroup(proc, mounts);
  if (parent.empty()) return;
  remove_left(parent);
  path_ = parent + (parent.ends_with('/') ? "" : "/") + std::string(kRunCgroup) + std::to_string(::getpid());
  if (::mkdir(path_.c_str(), 0755) != 0 && errno != EEXIST) {
    path_.clear();
    return;
  }
  door_ = UniqueFd(::open((path_ + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
}

OwnCgroup::~OwnCgroup() {
  door_.reset();
  if (!path_.empty()) ::rmdir(path_.c_str());
}

}  // namespace headgate::cli
