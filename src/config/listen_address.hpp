// Parses the daemon's listen address: a numeric address and a port, "127.0.0.1:9471" or "[::1]:9471". Names are not
// accepted, because they may later resolve to another machine.
#pragma once

#include <arpa/inet.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/whole_number.hpp"

namespace headgate::config {

struct ListenAddress {
  std::string host;  // without brackets
  std::uint16_t port = 0;
};

[[nodiscard]] inline std::optional<ListenAddress> parse_listen_address(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = whole_number<std::uint16_t>(text.substr(colon + 1));
  std::string host(text.substr(0, colon));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  in6_addr address{};  // also holds an IPv4 address
  const bool numeric =
      ::inet_pton(AF_INET, host.c_str(), &address) == 1 || ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
  if (!port || !numeric) return std::nullopt;
  return ListenAddress{std::move(host), *port};
}

}  // namespace headgate::config
