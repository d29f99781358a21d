#include "runtime/mount_into.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/unique_fd.hpp"
#include "base/utf8.hpp"

namespace headgate::runtime {
namespace {

UniqueFd open_in_root(int root, const std::string& path, int flags, mode_t mode = 0) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.mode = mode;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how)));
}

struct Source {
  UniqueFd tree;  // a detached mount
  bool is_directory = false;
  std::string to;
};

Result<Source> source_of(const oci::Mount& mount) {
  Source source;
  source.to = mount.container_path;
  source.tree = UniqueFd(::open_tree(AT_FDCWD, mount.host_path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  struct stat facts{};
  if (!source.tree || ::fstat(source.tree.get(), &facts) != 0)
    return fail_errno("cannot bind " + printable(mount.host_path), errno);
  source.is_directory = S_ISDIR(facts.st_mode);
  mount_attr attributes{};
  const auto has = [&](const char* option) { return std::ranges::find(mount.options, option) != mount.options.end(); };
  if (has("ro")) attributes.attr_set |= MOUNT_ATTR_RDONLY;
  if (has("noexec")) attributes.attr_set |= MOUNT_ATTR_NOEXEC;
  if (has("nosuid")) attributes.attr_set |= MOUNT_ATTR_NOSUID;
  if (has("nodev")) attributes.attr_set |= MOUNT_ATTR_NODEV;
  if (::mount_setattr(source.tree.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) != 0)
    return fail_errno("cannot bind " + printable(mount.host_path), errno);
  return source;
}

// Opens the mount point, creating it if missing; an image's links are resolved inside its root.
Result<UniqueFd> place_of(int root, const Source& source) {
  std::string step;
  for (const auto& part : std::filesystem::path(source.to).parent_path().relative_path()) {
    const UniqueFd parent = open_in_root(root, "/" + step, O_PATH | O_DIRECTORY);
    if (parent) ::mkdirat(parent.get(), part.c_str(), 0755);
    step += (step.empty() ? "" : "/") + part.string();
  }
  const UniqueFd parent = open_in_root(root, "/" + step, O_PATH | O_DIRECTORY);
  const std::string name = std::filesystem::path(source.to).filename().string();
  if (parent && source.is_directory) ::mkdirat(parent.get(), name.c_str(), 0755);
  else if (parent) UniqueFd(::openat(parent.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  UniqueFd place = open_in_root(root, source.to, O_PATH);
  if (!place) return fail_errno("cannot make " + printable(source.to) + " in the container", errno);
  return place;
}

bool is_same(int fd, const struct stat& other) {
  struct stat facts{};
  return ::fstat(fd, &facts) == 0 && facts.st_dev == other.st_dev && facts.st_ino == other.st_ino;
}

}  // namespace

Result<void> mount_into(pid_t pid, const std::string& root, const std::vector<oci::Mount>& mounts) {
  struct stat wanted{};
  if (::stat(root.c_str(), &wanted) != 0)
    return fail_errno("cannot look at the container's root " + printable(root), errno);
  std::vector<Source> sources;
  for (const oci::Mount& mount : mounts) sources.push_back(TRY(source_of(mount)));
  const std::string path = "/proc/" + std::to_string(pid) + "/ns/mnt";
  const UniqueFd space(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!space || ::setns(space.get(), CLONE_NEWNS) != 0)
    return fail_errno("cannot enter the mount namespace of process " + std::to_string(pid), errno,
                      "its user namespace must be the caller's own");
  // runc calls hooks before it pivots into the container's root, crun after.
  UniqueFd at(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!at || !is_same(at.get(), wanted)) at = UniqueFd(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!at || !is_same(at.get(), wanted))
    return fail(ErrorCode::not_found,
                "process " + std::to_string(pid) + " does not see the container's root " + printable(root));
  for (const Source& source : sources) {
    const UniqueFd place = TRY(place_of(at.get(), source));
    if (::move_mount(source.tree.get(), "", place.get(), "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
      return fail_errno("cannot mount " + printable(source.to) + " in the container", errno);
  }
  return {};
}

}  // namespace headgate::runtime
