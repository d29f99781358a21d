// A server's address: a Unix socket path, or host and port.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace headgate::http {

struct Endpoint {
  std::string path{};  // of a Unix socket; if empty, host and port are used
  std::string host{};
  std::uint16_t port = 0;

  // For the Host header: "localhost" for a Unix socket.
  [[nodiscard]] std::string host_header() const;
  [[nodiscard]] std::string text() const;  // in the form that parse_endpoint accepts
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// Parses "/run/x.sock", "unix:/run/x.sock", "host:port", "http://host:port" or "[::1]:port".
[[nodiscard]] Result<Endpoint> parse_endpoint(std::string_view text);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};
// Resolves the address. A host name blocks, so use numeric addresses where that must not happen.
[[nodiscard]] Result<SocketAddress> address_of(const Endpoint& endpoint);

}  // namespace headgate::http
