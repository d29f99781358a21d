#include "guest/limiter/session/before_init.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "guest/bare/keep_errno.hpp"
#include "guest/bare/text.hpp"
#include "guest/limiter/session/environment_grant.hpp"
#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {
namespace {

constexpr int kLooks = 400;
constexpr long kBetweenLooksNs = 5'000'000;

// The socket of a daemon that has ended stays, and refuses.
bool listens(const char* pipe) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  bare::Text path(address.sun_path);
  path.add(pipe).add("/control");
  const int socket = path.full() ? -1 : ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return false;
  const int connected = ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const bool busy = connected != 0 && errno == EAGAIN;
  ::close(socket);
  return connected == 0 || busy;
}

}  // namespace

void await_mps_daemon() {
  const char* const pipe = variable("CUDA_MPS_PIPE_DIRECTORY");
  if (pipe == nullptr || pipe[0] == '\0') return;
  const bare::KeepErrno keep_errno;
  if (!listens(pipe)) {
    open_session_by_directory();
    const bool member = session.membership.load(std::memory_order_acquire) == Membership::member;
    for (int look = 0; member && look < kLooks && !listens(pipe); ++look) {
      const timespec pause{0, kBetweenLooksNs};
      ::nanosleep(&pause, nullptr);
    }
  }
}

}  // namespace headgate::limiter
