#include "sim/process_identity.hpp"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/unique_fd.hpp"
#include "guest/bare/clock.hpp"

namespace headgate::sim {
namespace {

// Field 22 of /proc/self/stat, counted after the last ')': comm may hold spaces and parentheses.
std::uint64_t own_start_time() {
  UniqueFd fd(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  char text[1024] = {};
  if (!fd || ::read(fd.get(), text, sizeof text - 1) <= 0) return 0;
  const char* at = std::strrchr(text, ')');
  for (int field = 2; at && field < 22; ++field) at = std::strchr(at + 1, ' ');
  return at ? bare::host_start_time(std::strtoull(at + 1, nullptr, 10)) : 0;
}

// Where the version 2 hierarchy is mounted; hybrid hosts have it below the others.
const char* cgroup_mount() {
  constexpr long kCgroup2Magic = 0x63677270;  // linux/magic.h: CGROUP2_SUPER_MAGIC
  struct statfs facts{};
  for (const char* place : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"})
    if (::statfs(place, &facts) == 0 && facts.f_type == kCgroup2Magic) return place;
  return nullptr;
}

}  // namespace

std::array<std::uint64_t, kMaxCgroups> own_cgroups() {
  std::array<std::uint64_t, kMaxCgroups> found{};
  const char* const mount = cgroup_mount();
  UniqueFd fd(::open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC));
  char text[8192] = {};
  if (mount == nullptr || !fd || ::read(fd.get(), text, sizeof text - 1) <= 0) return found;
  const char* const line = std::strncmp(text, "0::/", 4) == 0 ? text : std::strstr(text, "\n0::/");
  if (line == nullptr) return found;
  const char* const begin = std::strchr(line, '/');
  std::string path(begin, std::strcspn(begin, "\n"));
  if (path == "/") path.clear();
  for (std::uint64_t& inode : found) {
    struct stat facts{};
    if (::stat((mount + path).c_str(), &facts) != 0) break;
    inode = facts.st_ino;
    if (path.empty()) break;
    path.resize(path.find_last_of('/'));
  }
  return found;
}

std::uint64_t own_pid_namespace() {
  struct stat status{};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

std::uint32_t own_image() {
  std::uint32_t image = 0;
  if (const unsigned long bytes = ::getauxval(AT_RANDOM))
    std::memcpy(&image, reinterpret_cast<const void*>(bytes), sizeof image);
  return image;
}

int stopped_process_of(int thread) {
  char path[32], text[1024] = {};
  std::snprintf(path, sizeof path, "/proc/%d/status", thread);
  UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  if (!fd || ::read(fd.get(), text, sizeof text - 1) <= 0) return 0;
  const char* const state = std::strstr(text, "\nState:\tT ");
  const char* const process = std::strstr(text, "\nTgid:\t");
  return state && process ? std::atoi(process + sizeof "\nTgid:\t" - 1) : 0;
}

ProcessIdentity OwnIdentity::view() const {
  ProcessIdentity with_comm = identity;
  with_comm.comm = comm.data();
  return with_comm;
}

OwnIdentity own_identity() {
  OwnIdentity own;
  own.identity = {.pid = ::getpid(),
                  .pid_namespace = own_pid_namespace(),
                  .start_time = own_start_time(),
                  .comm = {},
                  .image = own_image(),
                  .mps_percent = 0,
                  .cgroups = own_cgroups()};
  // The calling thread may have another name, so this reads the leader's, which is the program's.
  UniqueFd fd(::open("/proc/self/comm", O_RDONLY | O_CLOEXEC));
  if (fd) {
    const ssize_t length = ::read(fd.get(), own.comm.data(), own.comm.size() - 1);
    if (length > 0 && own.comm[length - 1] == '\n') own.comm[length - 1] = 0;
  } else {
    ::prctl(PR_GET_NAME, own.comm.data());
    own.comm.back() = 0;
  }
  return own;
}

}  // namespace headgate::sim
