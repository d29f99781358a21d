// What the daemon listens on: a numeric address and a port, "127.0.0.1:9471" or "[::1]:9471". A name may mean another machine tomorrow.
#pragma once

#include <arpa/inet.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/whole_number.hpp"

namespace headgate::config {

[[nodiscard]] inline bool is_listen_address(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || !whole_number<std::uint16_t>(text.substr(colon + 1))) return false;
  std::string host(text.substr(0, colon));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  in6_addr address{};  // room for either kind
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 || ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace headgate::config
