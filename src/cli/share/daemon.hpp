// Finds headgated and sends it requests.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "http/endpoint.hpp"

namespace headgate::cli {

// Returns HEADGATE_SOCKET if set (it must answer), else the socket in this user's runtime directory or /run/headgate.
// Empty if none answers. Errors: unreachable, usage: of HEADGATE_SOCKET; denied: not accessible.
[[nodiscard]] Result<std::optional<http::Endpoint>> find_daemon();
// The same for a run, which must not miss a daemon that is restarting: if a control socket exists and does not answer,
// waits up to 3 s for it and says so. Result and errors as for find_daemon().
[[nodiscard]] Result<std::optional<http::Endpoint>> await_daemon();
// The same for commands that need a daemon. Errors: unreachable, with how to start one.
[[nodiscard]] Result<http::Endpoint> need_daemon();

// Returns a control socket that exists at one of the expected paths, whether a daemon listens or not.
[[nodiscard]] std::optional<std::string> socket_left_behind();

// Returns the group that may connect: the socket's, or that of its directory if the directory is not accessible. Empty
// if it cannot be determined.
[[nodiscard]] std::optional<std::uint32_t> group_of_socket(const std::string& socket);
// Returns what an administrator must do to admit this user. Never suggests root's group, which grants far more.
[[nodiscard]] std::string how_to_join(std::optional<std::uint32_t> group);
// Returns the PID of the process that listens at the daemon's Unix socket; 0 if it cannot be determined.
[[nodiscard]] pid_t pid_of(const http::Endpoint& daemon);
// Returns the error for a socket that does not answer: the daemon has ended, or hangs.
[[nodiscard]] Error silence_at(const std::string& socket);

// Returns the runtime directory of the socket in HEADGATE_SOCKET, with the shares' pages. Empty if it names none.
[[nodiscard]] std::optional<std::string> pages_beside_named_socket();

// Returns the paths to try without HEADGATE_SOCKET, in order.
[[nodiscard]] std::vector<std::string> daemon_sockets();

// Returns the body of a 2xx reply without its last line feed; `patience` limits the whole exchange. Errors: the
// daemon's own, by its code; unreachable.
[[nodiscard]] Result<std::string> ask(const http::Endpoint& daemon, const std::string& method,
                                      const std::string& target, const std::string& body = {},
                                      std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace headgate::cli
