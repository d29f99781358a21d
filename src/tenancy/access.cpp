#include "tenancy/access.hpp"

#include <algorithm>

namespace headgate::tenancy {
namespace {

bool holds(std::span<const std::uint32_t> list, std::uint32_t id) { return std::ranges::find(list, id) != list.end(); }

}  // namespace

Result<void> may_enter(const Share& share, const Visitor& visitor) {
  const auto is_user = [&](std::uint32_t uid) { return uid == share.owner_uid || holds(share.users, uid); };
  if (share.everyone || is_user(visitor.uid) || holds(share.groups, visitor.gid)) return {};
  if (std::ranges::any_of(visitor.groups, [&](std::uint32_t gid) { return holds(share.groups, gid); })) return {};
  if (visitor.user_namespace_owner && is_user(*visitor.user_namespace_owner)) return {};
  const std::string whose = visitor.user_namespace_owner
                                ? ", in a user namespace of uid " + std::to_string(*visitor.user_namespace_owner) + ","
                                : "";
  return fail(ErrorCode::denied,
              "uid " + std::to_string(visitor.uid) + whose + " may not use the share '" + share.name + "'",
              "its owner can let users and groups in");
}

}  // namespace headgate::tenancy
