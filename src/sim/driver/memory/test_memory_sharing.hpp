// Helpers for tests of shared memory: descriptors over sockets, and cuMemCreate's properties.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "guest/abi/cuda.hpp"

namespace headgate::test {

// cuda.h: CUmemAllocationProp_v1.
struct AllocationProperties {
  unsigned type = 1, handle_types = 0;  // pinned
  abi::CUmemLocation location{1, 0};    // device 0
  void* win32 = nullptr;
  unsigned char flags[8] = {};

  [[nodiscard]] const abi::CUmemAllocationProp* get() const {
    return reinterpret_cast<const abi::CUmemAllocationProp*>(this);
  }
};
inline constexpr unsigned kPosixFd = 1;
inline constexpr auto kFdType = static_cast<abi::CUmemAllocationHandleType>(kPosixFd);

// Both ends of a stream socket. A descriptor is sent with one byte.
struct Channel {
  int ends[2] = {-1, -1};
  Channel() { (void)!::socketpair(AF_UNIX, SOCK_STREAM, 0, ends); }
  ~Channel() {
    for (const int end : ends) ::close(end);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
};

inline bool send_fd(int socket, int fd) {
  char byte = 'f';
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

inline int receive_fd(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS) return -1;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(head), sizeof fd);
  return fd;
}

inline void tell(int socket, char what) { (void)!::write(socket, &what, 1); }
inline char hear(int socket) {
  char what = 0;
  return ::read(socket, &what, 1) == 1 ? what : '\0';
}

}  // namespace headgate::test
