// What travels: a request as a handler sees it, a response as a handler makes it. Plain values, no sockets.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
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

// The first value under `name`, by ASCII letters of either case; nullptr when there is none.
[[nodiscard]] const std::string* find(const Fields& fields, std::string_view name);

// Who is at the other end. Over a Unix socket the kernel says so (SO_PEERCRED and SO_PEERGROUPS, taken at connect());
// over TCP nobody does: uid and gid are then -1, pid 0, groups empty.
struct Peer {
  bool is_unix = false;
  uid_t uid = static_cast<uid_t>(-1);
  // Whom that uid belongs to, as ServerLimits::user_of says: of subordinate uids their user.
  std::optional<uid_t> user{};
  gid_t gid = static_cast<gid_t>(-1);
  pid_t pid = 0;  // 0 also where the peer lives in a pid namespace that we cannot see
  std::vector<gid_t> groups;

  [[nodiscard]] bool in_group(gid_t group) const;  // primary or supplementary
};

struct Request {
  std::string method;                 // as sent: "GET"
  std::string path;                   // as sent, still encoded, without the query
  std::vector<std::string> segments;  // decoded; "/v1/shares/a%2Fb" is {"v1", "shares", "a/b"}
  Fields query;                       // decoded, in order; names are compared exactly
  Fields headers;
  std::string body;
  bool http_1_0 = false;
  bool keep_alive = true;
  Peer peer;          // filled by the server
  Fields parameters;  // what {name} segments of the route matched; filled by the server

  [[nodiscard]] const std::string* parameter(std::string_view name) const;
  [[nodiscard]] const std::string* query_value(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Fields headers;  // beside Content-Type, Content-Length, Transfer-Encoding and Connection, which the server writes
  // Set: the response is a stream of server-sent events, `body` is ignored. Shared, because the connection reads it
  // while its producer writes it, and either may end first.
  std::shared_ptr<EventStream> stream;
};

// {"code": CODE, "message": ..., "hint": ...}: the one shape of every error reply. Bytes that are not UTF-8 are
// replaced.
[[nodiscard]] Response error_response(int status, std::string_view code, std::string_view message,
                                      std::string_view hint);

// usage 400, denied 403, not_found 404, no_capacity and conflict 409, failed 500, unsupported 501, unreachable 503.
[[nodiscard]] Response error_response(const Error& error);

// An error reply back to an Error: the inverse of error_response by its code word; without one that we know, by the
// status.
[[nodiscard]] Error error_of(int status, std::string_view body);

}  // namespace headgate::http
