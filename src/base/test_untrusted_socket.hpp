// For tests: a descriptor that makes its last closer wait, and an old kernel that permits sending it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "base/unique_fd.hpp"

namespace headgate {

// A connection that makes its last closer wait for an hour, because the other end does not read.
class LingeringConnection {
 public:
  LingeringConnection() {
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener.get(), at, bytes), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), at, &bytes), 0);
    ours_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(ours_.get(), at, bytes), 0);
    theirs_ = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::string much(1 << 20, 'x');
    while (::send(ours_.get(), much.data(), much.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    const linger an_hour{1, 3600};
    EXPECT_EQ(::setsockopt(ours_.get(), SOL_SOCKET, SO_LINGER, &an_hour, sizeof an_hour), 0);
  }
  ~LingeringConnection() {
    theirs_.reset();  // resets the connection, which ends a lingering close
    if (closer_.joinable()) closer_.join();
    const linger none{0, 0};
    if (ours_) ::setsockopt(ours_.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
  }

  // Sends `text` with the descriptor and drops our reference. Returns false, with errno, if the kernel refused it.
  bool send_along(int socket, const std::string& text, int flags = 0) {
    iovec part{const_cast<char*>(text.data()), text.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = ours_.get();
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    if (::sendmsg(socket, &header, flags | MSG_NOSIGNAL) < 0) return false;
    // The message holds a reference, so that ours is not the last, unless the receiver has already dropped it. Then
    // this close lingers, so it runs on a thread.
    std::promise<void> closed;
    const auto soon = closed.get_future();
    closer_ = std::thread([ours = std::move(ours_), closed = std::move(closed)]() mutable {
      ours.reset();
      closed.set_value();
    });
    soon.wait_for(std::chrono::milliseconds(500));
    return true;
  }

 private:
  UniqueFd ours_, theirs_;
  std::thread closer_;
};

// Returns true if SO_PASSRIGHTS exists, which prevents peers from sending descriptors.
inline bool kernel_refuses_descriptors() {
  const UniqueFd any(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int value = 0;
  socklen_t bytes = sizeof value;
  return ::getsockopt(any.get(), SOL_SOCKET, 83, &value, &bytes) == 0;
}

// Runs `body` on a thread for which the kernel seems to lack SO_PASSRIGHTS, as for the threads it starts. Returns false
// if that is not possible here.
template <typename Body>
bool on_an_old_kernel(Body body) {
  bool there = false;
  std::thread([&] {
    constexpr std::uint32_t kNumber = offsetof(seccomp_data, nr),
                            kName = offsetof(seccomp_data, args) + 2 * sizeof(std::uint64_t);
    sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setsockopt, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsockopt, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kName),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 83, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{static_cast<unsigned short>(std::size(steps)), steps};
    there =
        ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
    if (there) body();
  }).join();
  return there;
}

}  // namespace headgate
