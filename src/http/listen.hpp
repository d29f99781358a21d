// Opens listening sockets and identifies peers: system calls only, without a loop.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "http/server.hpp"

namespace headgate::http {

// Binds and listens, with mode and group set before a client can connect; non-blocking, close-on-exec.
Result<UniqueFd> listen_unix(const UnixListener& listener);
Result<UniqueFd> listen_tcp(const std::string& address, std::uint16_t port);

[[nodiscard]] Peer peer_of(int fd);

}  // namespace headgate::http
