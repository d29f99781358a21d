#include "http/endpoint.hpp"

#include <netdb.h>
#include <sys/un.h>

#include <cstring>

#include "base/whole_number.hpp"

namespace headgate::http {
namespace {

std::unexpected<Error> refuse(std::string_view text) {
  return fail(ErrorCode::usage, "'" + std::string(text) + "' names no server",
              "accepted: /path/of.sock, unix:/path/of.sock, HOST:PORT, [IPV6]:PORT, http://HOST:PORT");
}

}  // namespace

std::string Endpoint::host_header() const {
  if (!path.empty()) return "localhost";
  return (host.contains(':') ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string Endpoint::text() const { return path.empty() ? host_header() : path; }

Result<Endpoint> parse_endpoint(std::string_view text) {
  std::string_view rest = text;
  const bool is_unix = rest.starts_with("unix:");
  if (is_unix) rest.remove_prefix(5);
  Endpoint endpoint;
  if (rest.starts_with('/')) {
    if (rest.size() >= sizeof(sockaddr_un::sun_path)) {
      return fail(ErrorCode::usage, "the socket path '" + std::string(rest) + "' is too long",
                  "accepted: at most 107 bytes");
    }
    endpoint.path = rest;
    return endpoint;
  }
  if (is_unix) return refuse(text);
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const auto colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return refuse(text);
  const std::string_view port = rest.substr(colon + 1);
  endpoint.port = whole_number<std::uint16_t>(port).value_or(0);
  if (endpoint.port == 0) return refuse(text);
  std::string_view host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.contains(':')) {
    return refuse(text);
  }
  if (host.empty() || host.find_first_of("/@ ") != std::string_view::npos) return refuse(text);
  endpoint.host = host;
  return endpoint;
}

Result<SocketAddress> address_of(const Endpoint& endpoint) {
  SocketAddress address;
  if (!endpoint.path.empty()) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    if (endpoint.path.size() >= sizeof name.sun_path)
      return fail(ErrorCode::usage,
                  "the socket path '" + endpoint.path + "' has " + std::to_string(endpoint.path.size()) + " bytes",
                  "accepted: 1 to 107 bytes");
    std::memcpy(name.sun_path, endpoint.path.data(), endpoint.path.size());
    std::memcpy(&address.storage, &name, sizeof name);
    address.size = sizeof name;
    return address;
  }
  addrinfo wish{};
  wish.ai_socktype = SOCK_STREAM;
  wish.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &wish, &found);
  if (error != 0) {
    return fail(ErrorCode::unreachable, "looking up " + endpoint.host + ": " + ::gai_strerror(error));
  }
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  ::freeaddrinfo(found);
  return address;
}

}  // namespace headgate::http
