// Unix sockets on which untrusted peers send.
//
// A peer may send descriptors along. The kernel closes those that are not received, in the thread that receives the
// message or closes the socket. That can block as long as the peer likes: a TCP connection with SO_LINGER makes its
// last closer wait. Since Linux 6.16 a socket can refuse such messages. On older kernels we never receive one, and
// a separate thread closes sockets that may hold one.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <utility>

#include "base/unique_fd.hpp"

namespace headgate {

// Makes senders get EPERM if the kernel can do that; on a listener, also those that connect from now on. Call it for
// accepted SOCK_STREAM sockets too: it reads urgent bytes inline, so that they cannot hide descriptors.
void refuse_descriptors(int socket);

// Like recv(2) without blocking, for bytes without descriptors. Returns -1 with EPERM if the next bytes carry some:
// they stay unread, and the socket is only good for close_deferred(). `flags`: MSG_TRUNC or 0.
ssize_t receive_bytes(int socket, void* to, std::size_t bytes, int flags = 0);

// Closes a socket soon and returns at once, whatever it holds. Other descriptors are closed directly. Thread-safe.
void close_deferred(UniqueFd socket);

// Owns such a socket and closes it with close_deferred().
class UntrustedSocket {
 public:
  explicit UntrustedSocket(UniqueFd fd) : fd_(std::move(fd)) {}
  UntrustedSocket(UntrustedSocket&&) noexcept = default;
  UntrustedSocket& operator=(UntrustedSocket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UntrustedSocket() { close_deferred(std::move(fd_)); }
  [[nodiscard]] int get() const { return fd_.get(); }
  [[nodiscard]] int release() { return fd_.release(); }

 private:
  UniqueFd fd_;
};

}  // namespace headgate
