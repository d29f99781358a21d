// Requests as handlers see them and responses as handlers make them. Plain values, no sockets.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "http/event_stream.hpp"

namespace headgate::http {

struct Field {
  std::string name;
  std::string value;
  friend bool operator==(const Field&, const Field&) = default;
};
using Fields = std::vector<Field>;

// Returns true if both are equal but for ASCII case.
[[nodiscard]] bool same_name(std::string_view a, std::string_view b);
// Returns the first value of `name`, ignoring ASCII case; nullptr if there is none.
[[nodiscard]] const std::string* find(const Fields& fields, std::string_view name);

// The peer. Over a Unix socket the kernel identifies it (SO_PEERCRED and SO_PEERGROUPS, as of connect()). Over TCP it
// is unknown: uid and gid are -1, pid 0, groups empty.
struct Peer {
  bool is_unix = false;
  uid_t uid = static_cast<uid_t>(-1);
  // The user that the uid belongs to, by ServerLimits::user_of: for a subordinate uid, the user that owns it.
  std::optional<uid_t> user{};
  gid_t gid = static_cast<gid_t>(-1);
  pid_t pid = 0;  // 0 also if the peer's pid namespace is not visible to us
  std::vector<gid_t> groups;

  [[nodiscard]] bool in_group(gid_t group) const;  // primary or supplementary
};

struct Request {
  std::string method;                 // as sent: "GET"
  std::string path;                   // as sent: still encoded, without the query
  std::vector<std::string> segments;  // decoded; "/v1/shares/a%2Fb" is {"v1", "shares", "a/b"}
  Fields query;                       // decoded, in order; names are case-sensitive
  Fields headers;
  std::string body;
  bool http_1_0 = false;
  bool keep_alive = true;
  Peer peer;          // set by the server
  Fields parameters;  // values of the route's {name} segments; set by the server

  [[nodiscard]] const std::string* parameter(std::string_view name) const;
  [[nodiscard]] const std::string* query_value(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Fields headers;  // besides Content-Type, Content-Length, Transfer-Encoding and Connection, which the server sets
  // If set, the response is a stream of server-sent events and `body` is ignored. Shared between connection and
  // producer, because either may end first.
  std::shared_ptr<EventStream> stream;
};

// Returns a reply whose body is this JSON and a newline.
[[nodiscard]] Response json_reply(std::string json, int status = 200);

// The form of all error replies: {"code": CODE, "message": ..., "hint": ...}. Invalid UTF-8 is replaced.
[[nodiscard]] Response error_response(int status, std::string_view code, std::string_view message,
                                      std::string_view hint);

// usage: 400, denied: 403, not_found: 404, no_capacity, conflict: 409, failed: 500, unsupported: 501, unreachable: 503.
[[nodiscard]] Response error_response(const Error& error);

// Turns an error reply back into an Error: by its code, or by the status if the code is missing or unknown.
[[nodiscard]] Error error_of(int status, std::string_view body);

// Checks by its Host header that a request is meant for us. A foreign site's page can make the user's browser send
// requests to 127.0.0.1, by resolving its own name to that address a moment later (DNS rebinding). The browser still
// takes us for that site, and sends its name in Host.
// Returns true for an address, "localhost" or one of `names`, with or without a port. ASCII case and a trailing dot are
// ignored. An address is safe, because DNS rebinding needs a name.
[[nodiscard]] bool is_own_name(std::string_view host, std::span<const std::string> names);

}  // namespace headgate::http
