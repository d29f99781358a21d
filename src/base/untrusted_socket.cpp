#include "base/untrusted_socket.hpp"

#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <latch>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace headgate {
namespace {

constexpr int kPassRights = 83;  // SO_PASSRIGHTS of asm-generic/socket.h (Linux 6.16)

int option(int socket, int name, int otherwise) {
  int value = 0;
  socklen_t bytes = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, name, &value, &bytes) == 0 ? value : otherwise;
}

bool may_hold_descriptors(int socket) {
  return option(socket, SO_DOMAIN, AF_UNSPEC) == AF_UNIX && option(socket, kPassRights, 1) != 0;
}

// Closes the sockets last from an exiting thread with its own descriptor table: sockets do not linger then (PF_EXITING
// in inet_release(), net/ipv4/af_inet.c). join() does not wait for it either, as it returns before the table goes. If
// the table is denied, the calling thread may block.
void close_by_a_thread_that_ends(std::vector<UniqueFd> sockets) {
  std::latch copied(1), closed(1);
  try {
    std::thread last([&] {
      ::unshare(CLONE_FILES);
      copied.count_down();
      closed.wait();
    });
    copied.wait();
    sockets.clear();
    closed.count_down();
    last.join();
  } catch (const std::system_error&) {  // no thread available
    sockets.clear();
  }
}

class Leaving {
 public:
  void add(UniqueFd socket) {
    const std::scoped_lock lock(mutex_);
    try {
      waiting_.push_back(std::move(socket));
      if (at_work_) return;
      std::thread([this] { work(); }).detach();
      at_work_ = true;
    } catch (const std::exception&) {  // no thread or no memory: close here, even if that blocks
      waiting_.clear();
    }
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (!waiting_.empty()) {
      std::vector<UniqueFd> some = std::exchange(waiting_, {});
      lock.unlock();
      close_by_a_thread_that_ends(std::move(some));
      lock.lock();
    }
    at_work_ = false;
  }

  std::mutex mutex_;
  std::vector<UniqueFd> waiting_;
  bool at_work_ = false;
};

}  // namespace

void refuse_descriptors(int socket) {
  const int no = 0, yes = 1;
  ::setsockopt(socket, SOL_SOCKET, kPassRights, &no, sizeof no);
  ::setsockopt(socket, SOL_SOCKET, SO_OOBINLINE, &yes, sizeof yes);
}

ssize_t receive_bytes(int socket, void* to, std::size_t bytes, int flags) {
  iovec part{to, bytes};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  // Without a control buffer, descriptors show as MSG_CTRUNC. They stay in the queued message, so this peek does not
  // drop the last reference to them.
  const ssize_t seen = ::recvmsg(socket, &header, flags | MSG_PEEK | MSG_DONTWAIT);
  if (seen < 0) return seen;
  if ((header.msg_flags & MSG_CTRUNC) != 0) return errno = EPERM, -1;
  // Read no more than was peeked, because descriptors may have arrived behind it.
  return ::recv(socket, to, std::min(bytes, static_cast<std::size_t>(seen)), flags | MSG_DONTWAIT);
}

void close_deferred(UniqueFd socket) {
  if (!socket || !may_hold_descriptors(socket.get())) return;
  // Never destroyed, because its thread may outlive main().
  static Leaving& leaving = *new Leaving;
  leaving.add(std::move(socket));
}

}  // namespace headgate
