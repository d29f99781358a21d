#include "base/service_notify.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/now.hpp"
#include "base/unique_fd.hpp"

namespace headgate {
namespace {

std::string assignment(ServiceState state) {
  switch (state) {
    case ServiceState::ready: return "READY=1";
    case ServiceState::stopping: return "STOPPING=1";
    case ServiceState::alive: return "WATCHDOG=1";
    case ServiceState::reloading: break;
  }
  // With a timestamp, so that systemd can tell this reload's READY=1 from an earlier one.
  return "RELOADING=1\nMONOTONIC_USEC=" + std::to_string(steady_now_ns() / 1000);
}

void send_to(std::string_view name, std::string_view text) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() < 2 || name.size() >= sizeof address.sun_path || (name[0] != '/' && name[0] != '@')) return;
  std::memcpy(address.sun_path, name.data(), name.size());
  if (name[0] == '@') address.sun_path[0] = '\0';  // an abstract socket
  // The length ends an abstract name: zero bytes after it would be part of the name.
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return;
  (void)::sendto(fd.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                 reinterpret_cast<const sockaddr*>(&address), size);
}

}  // namespace

void tell_service_manager(ServiceState state, std::string_view status) {
  const char* socket = std::getenv("NOTIFY_SOCKET");
  if (socket == nullptr) return;
  std::string text = assignment(state);
  if (!status.empty()) {
    std::string line(status);
    std::ranges::replace(line, '\n', ' ');  // each line is a separate assignment
    text += "\nSTATUS=" + line;
  }
  send_to(socket, text);
}

}  // namespace headgate
