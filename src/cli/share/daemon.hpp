// The command's way to headgated: where it answers, and one question with its answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "http/endpoint.hpp"

namespace headgate::cli {

// HEADGATE_SOCKET where it is set (then it must answer), else a socket in this user's runtime directory, else the
// node's at /run/headgate. Empty where nobody listens at any of these. Errors: unreachable, usage: of HEADGATE_SOCKET.
[[nodiscard]] Result<std::optional<http::Endpoint>> find_daemon();
// The same for a run, which a daemon that is just being started anew must not lose: where a control socket lies and
// nobody answers there, waits 3 s for one, and says so. Empty and errors: as of find_daemon().
[[nodiscard]] Result<std::optional<http::Endpoint>> await_daemon();
// The same for words that cannot do without. Errors: unreachable, with how to start one.
[[nodiscard]] Result<http::Endpoint> need_daemon();

// A control socket that lies where one is looked for, whether somebody listens or not.
[[nodiscard]] std::optional<std::string> socket_left_behind();

// The group that may pass to the socket: its own, or, of one that lies in a directory that is shut, the directory's.
// Empty where that cannot be told.
[[nodiscard]] std::optional<std::uint32_t> group_of_socket(const std::string& socket);
// What an administrator does so that this user may pass. root's group is more than a daemon: nobody is put into that.
[[nodiscard]] std::string how_to_join(std::optional<std::uint32_t> group);
// What to say of such a socket where nobody answers: that its daemon has ended, or that it does not answer.
[[nodiscard]] Error silence_at(const std::string& socket);

// The runtime directory with shares' pages beside the socket that HEADGATE_SOCKET names. Empty if it names none.
[[nodiscard]] std::optional<std::string> pages_beside_named_socket();

// Where it is looked for without HEADGATE_SOCKET, in this order.
[[nodiscard]] std::vector<std::string> daemon_sockets();

// The body of a reply of 2xx, without its last line feed; `patience` is for all of it. Errors: the daemon's own, by its
// code; unreachable.
[[nodiscard]] Result<std::string> ask(const http::Endpoint& daemon, const std::string& method,
                                      const std::string& target, const std::string& body = {},
                                      std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace headgate::cli
