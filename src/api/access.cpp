#include "api/access.hpp"

#include <algorithm>
#include <string_view>

#include "guest/grant/text.hpp"
#include "tenancy/share.hpp"

namespace headgate::api {
namespace {

// Compares in constant time, so that the duration does not reveal where the strings differ.
bool equal_in_secret(std::string_view a, std::string_view b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ (b.empty() ? '\0' : b[i % b.size()]));
  return difference == 0;
}

}  // namespace

bool shows_token(const http::Request& request, const Access& access) {
  if (!access.token || request.peer.is_unix) return false;
  const std::string* shown = http::find(request.headers, "Authorization");
  constexpr std::string_view kScheme = "Bearer ";  // in any case (RFC 9110, section 11.1)
  return shown != nullptr && grant::same_ignoring_case(shown->substr(0, kScheme.size()), kScheme) &&
         equal_in_secret(shown->substr(kScheme.size()), *access.token);
}

Result<node::Caller> caller_of(const http::Request& request, const Access& access) {
  node::Caller caller;
  if (request.peer.is_unix) {
    // In a rootless container, the caller is the user that runs it. Only its own uid can make it an administrator.
    caller.uid = request.peer.user.value_or(request.peer.uid);
    caller.pid = static_cast<std::uint32_t>(request.peer.pid);
    caller.gids.assign(request.peer.groups.begin(), request.peer.groups.end());
    if (std::ranges::find(caller.gids, request.peer.gid) == caller.gids.end()) caller.gids.push_back(request.peer.gid);
    caller.administrator = request.peer.uid == 0 || request.peer.uid == access.daemon_uid ||
                           (access.admin_gid && request.peer.in_group(*access.admin_gid));
    return caller;
  }
  if (!access.token) return caller;
  if (!shows_token(request, access)) {
    const std::string* shown = http::find(request.headers, "Authorization");
    return fail(ErrorCode::denied, shown == nullptr ? "no token was shown" : "the token is not the one of this daemon",
                "send the header Authorization: Bearer TOKEN, with the text of the daemon's token file");
  }
  caller.administrator = true;
  caller.uid = access.daemon_uid;
  return caller;
}

channel::Authorise administrators(const CurrentAccess& access) {
  return [&access](const http::Request& request, const std::string& client) -> Result<void> {
    const auto caller = TRY(caller_of(request, *access.now()));
    if (caller.administrator) return {};
    return fail(ErrorCode::denied,
                client.empty() ? "you may not see the task channel"
                               : "you may not speak for client '" + tenancy::escape_untrusted(client) + "'",
                "root, the daemon's own user, its control group, or over TCP its token");
  };
}

}  // namespace headgate::api
