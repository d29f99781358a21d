// A minimal client of the zeusd API with a persistent connection on a Unix socket. Its cost is not part of the figures.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace headgate::bench {

inline UniqueFd connect_to(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return {};
  std::memcpy(address.sun_path, path.data(), path.size());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

// Makes one exchange on a persistent connection; the responses have no body. Returns false unless the status is 200.
inline bool exchange_on(int fd, const std::string& request) {
  char answer[1024];
  if (::write(fd, request.data(), request.size()) != static_cast<ssize_t>(request.size())) return false;
  std::size_t had = 0;
  while (had < sizeof answer) {
    const ssize_t bytes = ::read(fd, answer + had, sizeof answer - had);
    if (bytes <= 0) return false;
    had += static_cast<std::size_t>(bytes);
    if (std::string_view(answer, had).contains("\r\n\r\n"))
      return std::string_view(answer, had).starts_with("HTTP/1.1 200");
  }
  return false;
}

inline std::string post(const std::string& target) {
  return "POST " + target + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
}

inline std::string get(const std::string& target) { return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n"; }

}  // namespace headgate::bench
