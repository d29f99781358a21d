#include "api/access.hpp"

#include <algorithm>
#include <set>
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

std::set<std::string> seen_shares(const snapshot::Snapshot& snapshot, const node::Caller& caller) {
  std::set<std::string> seen;
  for (const auto& share : snapshot.shares) {
    if (caller.sees(share.owner_uid, share.uids, share.gids)) seen.insert(share.name);
  }
  return seen;
}

constexpr std::size_t kMaxIdle = 1024;

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

http::Handler with_caller(const CurrentAccess& access, CallerHandler handler) {
  return [&access, handler = std::move(handler)](const http::Request& request) {
    const auto caller = caller_of(request, *access.now());
    auto done = caller ? handler(request, *caller) : std::unexpected(caller.error());
    return done ? std::move(*done) : http::error_response(done.error());
  };
}

http::LaterHandler with_caller(const CurrentAccess& access, CallerLaterHandler handler) {
  return [&access, handler = std::move(handler)](const http::Request& request, const http::Reply& reply) {
    const auto caller = caller_of(request, *access.now());
    if (!caller) return reply(http::error_response(caller.error()));
    handler(request, *caller, reply);
  };
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

snapshot::Snapshot visible(const snapshot::Snapshot& snapshot, const node::Caller& caller) {
  if (caller.administrator) return snapshot;
  snapshot::Snapshot seen = snapshot;
  const auto shares = seen_shares(snapshot, caller);
  std::erase_if(seen.shares, [&](const auto& share) { return !shares.contains(share.name); });
  std::erase_if(seen.processes, [&](const auto& process) {
    return process.share.empty() ? process.uid != caller.uid : !shares.contains(process.share);
  });
  // Only a page that tenants write names this process, so /proc may hide its details from this caller: drop them.
  for (auto& process : seen.processes) {
    if (!process.claimed || process.uid == caller.uid) continue;
    process.uid = 0;
    process.user = process.command = process.where = "";
    for (auto& device : process.devices) device.driver_bytes.reset(), device.busy_ratio.reset(), device.mps = false;
  }
  std::erase_if(seen.waiting, [&](const auto& waiting) { return !caller.owns(waiting.owner_uid); });
  return seen;
}

bool may_see(const snapshot::Event& event, const node::Caller& caller) {
  if (caller.administrator) return true;
  if (!event.share.empty()) return (event.owner_uid && caller.owns(*event.owner_uid)) || event.uid == caller.uid;
  if (event.owner_uid) return caller.owns(*event.owner_uid);             // of the node, about this user
  return event.pid == 0 || (caller.known() && event.uid == caller.uid);  // an audit finding names a process
}

Result<void> OperationRate::take(std::uint32_t uid, std::uint64_t now_ns) {
  const std::scoped_lock lock(mutex_);
  constexpr double kFullAfterNs = kBurst / kPerSecond * 1e9;
  if (budgets_.size() > kMaxIdle)
    std::erase_if(budgets_,
                  [&](const auto& entry) { return static_cast<double>(now_ns - entry.second.at_ns) >= kFullAfterNs; });
  Budget& budget = budgets_.try_emplace(uid, Budget{.left = kBurst, .at_ns = now_ns}).first->second;
  const std::uint64_t passed_ns = now_ns > budget.at_ns ? now_ns - budget.at_ns : 0;
  budget.left = std::min(kBurst, budget.left + static_cast<double>(passed_ns) * kPerSecond / 1e9);
  budget.at_ns = now_ns;
  if (budget.left < 1)
    return fail(ErrorCode::busy,
                "too many operations: a user has " + std::to_string(static_cast<int>(kBurst)) + " at once and " +
                    std::to_string(static_cast<int>(kPerSecond)) + " a second",
                "try again in a second");
  budget.left -= 1;
  return {};
}

}  // namespace headgate::api
