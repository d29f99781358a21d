#include "http/listen.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/untrusted_socket.hpp"

namespace headgate::http {
namespace {

constexpr int kBacklog = 1024;  // the kernel caps it at net.core.somaxconn

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return fail(ErrorCode::usage, "the socket path '" + path + "' has " + std::to_string(path.size()) + " bytes",
                "accepted: 1 to 107 bytes");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// Removes a socket file that a dead server left. Errors if a server is alive there, or the file is not a socket.
Result<void> clear_the_way(const std::string& path, const sockaddr_un& address) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return fail(ErrorCode::usage, path + " exists and is no socket", "name another path, or remove that file");
  }
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return fail_errno("socket", errno);
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN) {
    return fail(ErrorCode::failed, "another server listens on " + path, "stop it first, or name another path");
  }
  if (errno != ECONNREFUSED) return fail_errno("connecting to " + path, errno);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno("removing the dead socket " + path, errno);
  return {};
}

}  // namespace

Result<UniqueFd> listen_unix(const UnixListener& listener) {
  const auto address = TRY(unix_address(listener.path));
  TRY(clear_the_way(listener.path, address));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno("socket", errno);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail_errno("binding " + listener.path, errno, "its directory must exist and be writable");
  }
  // connect() fails before listen(), so that no client can enter while the file has its first mode.
  const auto give_up = [&](const char* what) {
    const int error = errno;
    ::unlink(listener.path.c_str());
    return fail_errno(what + listener.path, error);
  };
  if (listener.group && ::chown(listener.path.c_str(), static_cast<uid_t>(-1), *listener.group) != 0) {
    return give_up("giving to its group: ");
  }
  if (::chmod(listener.path.c_str(), listener.mode) != 0) return give_up("setting the mode of ");
  refuse_descriptors(fd.get());
  if (::listen(fd.get(), kBacklog) != 0) return give_up("listening on ");
  return fd;
}

Result<UniqueFd> listen_tcp(const std::string& address, std::uint16_t port) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  const sockaddr* bound = nullptr;
  socklen_t size = 0;
  if (::inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    bound = reinterpret_cast<const sockaddr*>(&v4);
    size = sizeof v4;
  } else if (::inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    bound = reinterpret_cast<const sockaddr*>(&v6);
    size = sizeof v6;
  } else {
    return fail(ErrorCode::usage, "'" + address + "' is no address to listen on",
                "accepted: a numeric address such as 127.0.0.1 or ::1");
  }
  UniqueFd fd(::socket(bound->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno("socket", errno);
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const std::string where = address + " port " + std::to_string(port);
  if (::bind(fd.get(), bound, size) != 0) return fail_errno("binding " + where, errno);
  if (::listen(fd.get(), kBacklog) != 0) return fail_errno("listening on " + where, errno);
  return fd;
}

Peer peer_of(int fd) {
  Peer peer;
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size) != 0 || local.ss_family != AF_UNIX) return peer;
  ucred credentials{};
  size = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return peer;
  peer.is_unix = true;
  peer.uid = credentials.uid;
  peer.gid = credentials.gid;
  peer.pid = credentials.pid;
  // With ERANGE the kernel reports the size needed (socket(7), since Linux 4.13).
  peer.groups.resize(64);
  for (int attempt = 0; attempt < 2; ++attempt) {
    size = static_cast<socklen_t>(peer.groups.size() * sizeof(gid_t));
    const bool read = ::getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, peer.groups.data(), &size) == 0;
    const bool retry = !read && errno == ERANGE;
    peer.groups.resize(read || retry ? size / sizeof(gid_t) : 0);
    if (!retry) break;
  }
  return peer;
}

}  // namespace headgate::http
