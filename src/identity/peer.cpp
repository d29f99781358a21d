#include "identity/peer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace headgate::identity {
namespace {

// Kernel ABI constants missing from Debian 12's C library: asm-generic/socket.h (Linux 6.5 and 4.13), linux/nsfs.h
// (4.11), asm-generic/unistd.h (5.3).
constexpr int kPeerPidfd = 77, kPeerGroups = 59;
constexpr unsigned long kNamespaceParent = 0xb702, kNamespaceOwnerUid = 0xb704;
// The kernel's nesting limit for user namespaces (user_namespaces(7)).
constexpr int kMaxNesting = 33;
constexpr long kPidfdOpen = 434;
// Inode of the initial pid namespace, since Linux 3.8: linux/proc_ns.h, PROC_PID_INIT_INO.
constexpr ino_t kHostPidNamespace = 0xeffffffc;

std::vector<std::uint32_t> groups_of(int socket) {
  std::vector<std::uint32_t> groups(64);
  for (;;) {
    auto bytes = static_cast<socklen_t>(groups.size() * sizeof groups[0]);
    const int result = ::getsockopt(socket, SOL_SOCKET, kPeerGroups, groups.data(), &bytes);
    if (result != 0 && errno != ERANGE) return {};
    const bool fits = result == 0;
    groups.resize(bytes / sizeof groups[0]);
    if (!fits) continue;
    std::ranges::sort(groups);
    return groups;
  }
}

std::unexpected<Error> gone(std::uint32_t pid) {
  return fail(ErrorCode::failed, "process " + std::to_string(pid) + " has ended");
}

// A bare tree has no /proc; the kernel still gives a peer's PID and user.
bool has_processes(const std::string& proc) {
  struct stat facts{};
  return ::stat((proc + "/self").c_str(), &facts) == 0;
}

}  // namespace

std::optional<std::uint32_t> foreign_namespace_owner(const std::string& proc, std::uint32_t pid) {
  struct stat ours{}, theirs{};
  UniqueFd space(::open((proc + "/" + std::to_string(pid) + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC));
  if (!space || ::stat((proc + "/self/ns/user").c_str(), &ours) != 0) return std::nullopt;
  std::optional<std::uint32_t> owner;
  // Walk out to the last namespace before ours: any uid of an outer namespace may have made an inner one.
  for (int depth = 0; depth < kMaxNesting; ++depth) {
    if (::fstat(space.get(), &theirs) != 0 || (ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev)) break;
    uid_t maker = 0;
    if (::ioctl(space.get(), kNamespaceOwnerUid, &maker) != 0) break;
    owner = maker;
    const int parent = ::ioctl(space.get(), kNamespaceParent);
    if (parent < 0) break;
    space = UniqueFd(parent);
  }
  return owner;
}

bool in_host_pid_namespace(const std::string& proc) {
  struct stat own{};
  return ::stat((proc + "/self/ns/pid").c_str(), &own) != 0 || own.st_ino == kHostPidNamespace;
}

bool has_ended(int pidfd) {
  pollfd ready{pidfd, POLLIN, 0};
  return ::poll(&ready, 1, 0) > 0;
}

// The PID may be reused between two reads; it is the process we read if it is still alive afterwards.
Result<UniqueFd> pidfd_of(const Process& process, const std::string& proc) {
  UniqueFd pidfd(static_cast<int>(::syscall(kPidfdOpen, static_cast<pid_t>(process.pid), 0u)));
  if (!pidfd)
    return errno == ESRCH ? gone(process.pid)
                          : fail_errno("pidfd_open of process " + std::to_string(process.pid), errno);
  const auto now = read_process(proc, process.pid);
  if (has_ended(pidfd.get()) || !now || now->start_time != process.start_time) return gone(process.pid);
  return pidfd;
}

Result<Peer> peer_of(int socket, const std::string& proc) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) return fail_errno("SO_PEERCRED", errno);
  if (credentials.pid <= 0) {
    return fail(ErrorCode::unsupported, "a process outside the daemon's pid namespace connected",
                "run headgated in the host's pid namespace (a container needs --pid=host)");
  }
  Peer peer;
  peer.uid = credentials.uid;
  peer.gid = credentials.gid;
  peer.groups = groups_of(socket);
  const auto pid = static_cast<std::uint32_t>(credentials.pid);
  int pidfd = -1;
  bytes = sizeof pidfd;
  if (::getsockopt(socket, SOL_SOCKET, kPeerPidfd, &pidfd, &bytes) == 0) peer.pidfd = UniqueFd(pidfd);
  if (!has_processes(proc)) {
    peer.process.pid = peer.process.namespace_pid = pid;
    peer.process.uid = credentials.uid;
    if (!peer.pidfd) peer.pidfd = UniqueFd(static_cast<int>(::syscall(kPidfdOpen, credentials.pid, 0u)));
    if (!peer.pidfd || has_ended(peer.pidfd.get())) return gone(pid);
    return peer;
  }
  peer.process = TRY(read_process(proc, pid));
  if (!peer.pidfd) peer.pidfd = TRY(pidfd_of(peer.process, proc));
  peer.user_namespace_owner = foreign_namespace_owner(proc, pid);
  // Only if it is still alive now does everything above belong to the pidfd's process.
  if (has_ended(peer.pidfd.get())) return gone(pid);
  return peer;
}

}  // namespace headgate::identity
