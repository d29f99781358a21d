#include "channel/authorise.hpp"

#include <unistd.h>

#include <string_view>

namespace headgate::channel {
namespace {

// In time that does not depend on where the first difference lies.
bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

bool holds(const Grant& grant, const http::Request& request) {
  const http::Peer& peer = request.peer;
  if (peer.is_unix && ((grant.uid && *grant.uid == peer.uid) || (grant.group && peer.in_group(*grant.group)))) {
    return true;
  }
  constexpr std::string_view kBearer = "Bearer ";
  const std::string* header = http::find(request.headers, "authorization");
  return !grant.token.empty() && header != nullptr && header->starts_with(kBearer) &&
         same_secret(std::string_view(*header).substr(kBearer.size()), grant.token);
}

}  // namespace

Authorise authorise_by(std::map<std::string, Grant> grants) {
  return [grants = std::move(grants)](const http::Request& request, const std::string& client) -> Result<void> {
    if (request.peer.is_unix && (request.peer.uid == 0 || request.peer.uid == ::geteuid())) return {};
    const auto grant = grants.find(client);
    if (grant != grants.end() && holds(grant->second, request)) return {};
    return fail(ErrorCode::denied,
                client.empty() ? "you may not see all clients" : "you may not speak for client '" + client + "'",
                "accepted: the client's user or group over the Unix socket, or its bearer token");
  };
}

}  // namespace headgate::channel
