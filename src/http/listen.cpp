#include "http/listen.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>

#include "base/untrusted_socket.hpp"
#include "http/client.hpp"

namespace headgate::http {
namespace {

constexpr int kBacklog = 1024;  // the kernel caps it at net.core.somaxconn

// Removes a socket file that a dead server left. Errors if a server is alive there, or the file is not a socket.
Result<void> clear_the_way(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return fail(ErrorCode::usage, path + " exists and is no socket", "name another path, or remove that file");
  }
  const int error = try_to_connect({.path = path});
  if (error == 0)
    return fail(ErrorCode::failed, "another server listens on " + path, "stop it first, or name another path");
  if (error != ECONNREFUSED) return fail_errno("connecting to " + path, error);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno("removing the dead socket " + path, errno);
  return {};
}

}  // namespace

Result<UniqueFd> listen_unix(const UnixListener& listener) {
  if (listener.path.empty())
    return fail(ErrorCode::usage, "the socket path '' has 0 bytes", "accepted: 1 to 107 bytes");
  const auto address = TRY(address_of({.path = listener.path}));
  TRY(clear_the_way(listener.path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno("socket", errno);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0) {
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
  boost::system::error_code error;
  const boost::asio::ip::tcp::endpoint at(boost::asio::ip::make_address(address, error), port);
  if (error)
    return fail(ErrorCode::usage, "'" + address + "' is no address to listen on",
                "accepted: a numeric address such as 127.0.0.1 or ::1");
  UniqueFd fd(::socket(at.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno("socket", errno);
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const std::string where = address + " port " + std::to_string(port);
  if (::bind(fd.get(), at.data(), static_cast<socklen_t>(at.size())) != 0) return fail_errno("binding " + where, errno);
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
