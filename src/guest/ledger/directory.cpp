#include "guest/ledger/directory.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "guest/bare/clock.hpp"
#include "guest/bare/keep_errno.hpp"
#include "guest/bare/text.hpp"
#include "guest/ledger/check.hpp"
#include "guest/ledger/registration.hpp"
#include "guest/ledger/step.hpp"

namespace headgate::ledger {
namespace {

constexpr std::int64_t kScratchAgeSeconds = 60;

// A daemon lets others pass through to a share's socket (mode 0711); only the owner may list or write.
constexpr mode_t kForbiddenOfShares = 066;
constexpr mode_t kForbiddenOfGpus = 077;

bool begins(const char* name, const char* prefix) { return std::strncmp(name, prefix, std::strlen(prefix)) == 0; }

bool stat_fd(int fd, struct stat& out) { return ::syscall(SYS_fstat, fd, &out) == 0; }
bool stat_entry(int directory, const char* name, struct stat& out) {
  return ::syscall(SYS_newfstatat, directory, name, &out, AT_SYMLINK_NOFOLLOW) == 0;
}

// open() returns ENOTDIR or ELOOP for several causes; the entry itself tells which.
PageFault open_fault(int directory, const char* name, int error) {
  struct stat entry{};
  // EISDIR: a directory where a file is expected; ENXIO: a socket.
  const bool odd = error == ENOTDIR || error == ELOOP || error == EISDIR || error == ENXIO;
  if (odd && stat_entry(directory, name, entry)) {
    if (S_ISLNK(entry.st_mode)) return fault(PageError::symbolic_link, name);
    return fault(PageError::not_a_file, name);
  }
  return system_fault(name, error);
}

// `forbidden`: permission bits that must not be set.
PageFault check_owned(int fd, const char* name, mode_t kind, mode_t forbidden) {
  struct stat status{};
  if (!stat_fd(fd, status)) return system_fault(name, errno);
  if ((status.st_mode & S_IFMT) != kind) return fault(PageError::not_a_file, name);
  if (status.st_uid != ::geteuid()) return fault(PageError::foreign_owner, name, status.st_uid, ::geteuid());
  if ((status.st_mode & forbidden) != 0)
    return fault(PageError::open_permissions, name, status.st_mode & 07777, kind == S_IFDIR ? 0700 : 0600);
  return {};
}

PageFault open_directory(int parent, const char* name, mode_t forbidden, bool make, Descriptor& out) {
  if (make && ::mkdirat(parent, name, 0700) != 0 && errno != EEXIST) {
    const int error = errno;
    return error == ENOENT ? fault(PageError::no_directory, name) : system_fault(name, error);
  }
  out.reset(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!out.valid()) return open_fault(parent, name, errno);
  return check_owned(out.get(), name, S_IFDIR, forbidden);
}

}  // namespace

void Descriptor::reset(int fd) {
  if (fd_ >= 0) {
    const bare::KeepErrno keep_errno;
    ::close(fd_);
  }
  fd_ = fd;
}

PageFault system_fault(const char* what, int os_errno) {
  PageError error = PageError::os_error;
  switch (os_errno) {
    case ENOENT: error = PageError::not_found; break;
    case ENOSPC:
    case EDQUOT: error = PageError::no_space; break;
    case EROFS: error = PageError::read_only; break;
    case EACCES:
    case EPERM: error = PageError::no_permission; break;
    case ENAMETOOLONG: error = PageError::path_too_long; break;
    case ELOOP: error = PageError::symbolic_link; break;
    default: break;
  }
  PageFault out = fault(error, what);
  out.os_errno = os_errno;
  return out;
}

namespace {

PageFault open_in_base(const char* base, const char* name, mode_t forbidden, bool make, Descriptor& out) {
  if (base[0] != '/') return fault(PageError::relative_path, base);
  Descriptor root;
  // The user may have chosen the base: others may read it, but not write.
  PageFault bad = open_directory(AT_FDCWD, base, S_IWGRP | S_IWOTH, make, root);
  if (!bad) bad = open_directory(root.get(), name, forbidden, make, out);
  if (bad.error != PageError::not_found) return bad;
  bad = fault(PageError::no_runtime_directory, base);
  bad.found = root.valid() ? 1 : 0;  // the base exists, but has no shares
  return bad;
}

}  // namespace

PageFault open_shares(const char* base, bool make, Descriptor& out) {
  return open_in_base(base, "shares", kForbiddenOfShares, make, out);
}

PageFault open_gpus(const char* base, Descriptor& out) {
  return open_in_base(base, "gpus", kForbiddenOfGpus, true, out);
}

PageFault open_share_directory(int shares, const char* name, Descriptor& out) {
  if (!is_share_name(name)) return fault(PageError::bad_name, name);
  return open_directory(shares, name, kForbiddenOfShares, false, out);
}

PageFault open_share_directory_at(const char* path, Descriptor& out) {
  if (path[0] != '/') return fault(PageError::relative_path, path);
  return open_directory(AT_FDCWD, path, kForbiddenOfShares, false, out);
}

PageFault regular_file_size(int fd, const char* name, std::size_t& bytes) {
  struct stat status{};
  if (!stat_fd(fd, status)) return system_fault(name, errno);
  if (!S_ISREG(status.st_mode)) return fault(PageError::not_a_file, name);
  bytes = static_cast<std::size_t>(status.st_size);
  return {};
}

bool says_closed(const char* path) {
  const Descriptor directory(::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_PATH));
  const Descriptor file(directory.valid()
                            ? ::openat(directory.get(), kFailPolicyFile, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
                            : -1);
  constexpr std::string_view kClosed = "closed";
  char text[kClosed.size()];
  return file.valid() && ::read(file.get(), text, sizeof text) == static_cast<ssize_t>(sizeof text) &&
         std::string_view(text, sizeof text) == kClosed;
}

bool is_removed(int directory) {
  struct stat status{};
  return stat_fd(directory, status) && status.st_nlink == 0;
}

bool is_half_a_share(int shares, const char* name, int directory) {
  if (::unlinkat(shares, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return false;
  struct stat ours{}, named{};
  return stat_fd(directory, ours) && stat_entry(shares, name, named) && ours.st_dev == named.st_dev &&
         ours.st_ino == named.st_ino;
}

PageFault open_page_file(int directory, const char* name, bool writable, Descriptor& out, std::size_t& bytes) {
  // O_NONBLOCK: a named pipe placed here must not block us before its kind is known.
  out.reset(::openat(directory, name, (writable ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!out.valid()) return open_fault(directory, name, errno);
  if (const PageFault bad = check_owned(out.get(), name, S_IFREG, 077)) return bad;
  return regular_file_size(out.get(), name, bytes);
}

PageFault make_page_file(int directory, const char* name, std::size_t bytes, Descriptor& out) {
  // Checked first: exceeding the limit also raises SIGXFSZ, which ends the program.
  rlimit most{};
  if (::syscall(SYS_getrlimit, RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < bytes)
    return fault(PageError::file_size_limit, name, most.rlim_cur, bytes);
  out.reset(::openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!out.valid()) return system_fault(name, errno);
  // Undoes the umask and sets the sticky bit. By it, cleaners of old files in /tmp or XDG_RUNTIME_DIR know what to keep
  // (XDG base directory specification): a mapped page is in use but looks old.
  step("make: mode");
  if (::fchmod(out.get(), 01600) != 0) return system_fault(name, errno);
  step("make: space");
  int error;
  do error = ::posix_fallocate(out.get(), 0, static_cast<off_t>(bytes));
  while (error == EINTR);
  return error != 0 ? system_fault(name, error) : PageFault{};
}

std::uint64_t random_word() {
  std::uint64_t word = 0;
  if (::syscall(SYS_getrandom, &word, sizeof word, 1 /* GRND_NONBLOCK */) == sizeof word) return word;
  word = static_cast<std::uint64_t>(bare::now_ns(CLOCK_REALTIME));
  word = (word ^ static_cast<std::uint64_t>(::getpid()) << 40) * 0x9e37'79b9'7f4a'7c15u;
  return word ^ word >> 29;
}

void scratch_name(const char* prefix, char (&out)[48]) { bare::Text(out).add(prefix).add_hex(random_word()); }

void remove_directory_tree(int shares, const char* name) {
  if (::unlinkat(shares, name, 0) == 0) return;  // a file, from gpu_page.cpp
  const Descriptor directory(::openat(shares, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (directory.valid()) {
    step("remove: policy");
    ::unlinkat(directory.get(), "policy", 0);
    step("remove: usage");
    ::unlinkat(directory.get(), "usage", 0);
    ::unlinkat(directory.get(), kTenantSocket, 0);
    ::unlinkat(directory.get(), kFailPolicyFile, 0);
  }
  step("remove: directory");
  ::unlinkat(shares, name, AT_REMOVEDIR);
}

void sweep_scratch(int shares) {
  const Descriptor list(::openat(shares, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  alignas(8) char buffer[512];  // some threads have small stacks; a record is at most 280 bytes long
  for (;;) {
    const long length = ::syscall(SYS_getdents64, list.get(), buffer, sizeof buffer);
    if (length <= 0) return;
    for (long at = 0; at < length;) {
      // struct linux_dirent64: inode 8, offset 8, record length 2, type 1, name.
      std::uint16_t record;
      std::memcpy(&record, buffer + at + 16, sizeof record);
      const char* name = buffer + at + 19;
      at += record;
      const bool is_new = begins(name, kBeingMade);
      struct stat status{};
      if (!is_new && !begins(name, kBeingRemoved)) continue;
      if (!stat_entry(shares, name, status) || now.tv_sec - status.st_mtim.tv_sec <= kScratchAgeSeconds) continue;
      char gone[48];
      if (is_new) {
        // A stopped maker that resumes must not rename a half-removed directory to a share's name.
        scratch_name(kBeingRemoved, gone);
        if (::renameat(shares, name, shares, gone) != 0) continue;
        name = gone;
      }
      remove_directory_tree(shares, name);
    }
  }
}

}  // namespace headgate::ledger
