#include "tenancy/open_read_only_mount.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace headgate::tenancy {
namespace {

// linux/mount.h: glibc 2.36's sys/mount.h repeats it, 2.35's does not. The numbers are the same on all architectures.
constexpr long kOpenTree = 428, kMountSetattr = 442;
constexpr unsigned kClone = 1, kEmptyPath = 0x1000;
constexpr std::uint64_t kReadOnly = 1;
struct MountAttributes {
  std::uint64_t set, clear, propagation, user_namespace;
};

}  // namespace

UniqueFd open_read_only_mount(const std::string& directory, const std::string& name) {
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC;
  const UniqueFd mount(
      static_cast<int>(::syscall(kOpenTree, AT_FDCWD, directory.c_str(), kClone | unsigned{O_CLOEXEC})));
  MountAttributes attributes{kReadOnly, 0, 0, 0};
  if (mount && ::syscall(kMountSetattr, mount.get(), "", kEmptyPath, &attributes, sizeof attributes) == 0) {
    if (UniqueFd file(::openat(mount.get(), name.c_str(), kFlags)); file) return file;
  }
  return UniqueFd(::open((directory + "/" + name).c_str(), kFlags));
}

}  // namespace headgate::tenancy
