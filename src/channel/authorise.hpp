// Who may speak for a client of the channel.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "http/message.hpp"

namespace headgate::channel {

// An error denies; `client` is empty where the request is about all clients.
using Authorise = std::function<Result<void>(const http::Request& request, const std::string& client)>;

// How a client proves who it is; any one that is set is enough.
struct Grant {
  std::optional<uid_t> uid{};    // over the Unix socket
  std::optional<gid_t> group{};  // likewise, supplementary groups too
  std::string token{};           // "Authorization: Bearer TOKEN", over any socket; empty: none
};

// Root and the server's own user over the Unix socket may speak for all; for others counts what their client was granted.
[[nodiscard]] Authorise authorise_by(std::map<std::string, Grant> grants);

}  // namespace headgate::channel
