// Listening sockets and who connects to them: the system calls, without a loop.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "http/server.hpp"

namespace headgate::http {

// Bound with mode and group set before anybody can connect, and listening; non-blocking, close-on-exec.
Result<UniqueFd> listen_unix(const UnixListener& listener);
Result<UniqueFd> listen_tcp(const std::string& address, std::uint16_t port);

[[nodiscard]] Peer peer_of(int fd);

}  // namespace headgate::http
