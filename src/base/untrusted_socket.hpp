// Unix sockets on which strangers send.
//
// They may send descriptors along, and the kernel closes those that nobody takes: in the thread that receives the
// message, or that closes the socket in which it lies unread. That takes as long as the sender likes, who alone knows
// what it sent: a TCP connection with SO_LINGER keeps its last closer for the time that is said there. From Linux 6.16
// on a socket can refuse such messages; before it we never take one, and have a thread close what may hold one for
// which nothing waits.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <utility>

#include "base/unique_fd.hpp"

namespace headgate {

// Senders get EPERM where the kernel can do that. Of a listener: so do those who connect to it from then on. Call it
// for an accepted SOCK_STREAM socket too: urgent bytes are then read as all others, and cannot hide descriptors.
void refuse_descriptors(int socket);

// recv(2), never waiting, of what comes without descriptors. -1 with EPERM where some lie in what would be read next:
// it stays unread, and the socket is good for close_deferred() alone. `flags`: MSG_TRUNC or none.
ssize_t receive_bytes(int socket, void* to, std::size_t bytes, int flags = 0);

// Closes a socket, soon, and returns at once, whatever lies in it. Any other descriptor is simply closed. Thread-safe.
void close_deferred(UniqueFd socket);

// Owns one, and lets it go.
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
