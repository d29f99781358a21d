// Where a server is: a Unix socket's path or a host and port.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace headgate::http {

struct Endpoint {
  std::string path{};  // of a Unix socket; empty: host and port count
  std::string host{};
  std::uint16_t port = 0;

  // For the Host header: "localhost" for a Unix socket.
  [[nodiscard]] std::string host_header() const;
  [[nodiscard]] std::string text() const;  // as parse_endpoint takes it
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// "/run/x.sock", "unix:/run/x.sock", "host:port", "http://host:port", "[::1]:port".
[[nodiscard]] Result<Endpoint> parse_endpoint(std::string_view text);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};
// Host names are looked up here, which blocks: give numeric addresses where that must not be.
[[nodiscard]] Result<SocketAddress> address_of(const Endpoint& endpoint);

}  // namespace headgate::http
