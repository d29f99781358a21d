// Decides which processes may enter a share. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "tenancy/share.hpp"

namespace headgate::tenancy {

// A process's credentials as the kernel reports them, as in identity::Peer.
struct Visitor {
  std::uint32_t uid = ~0u, gid = ~0u;  // ~0u: no user, and no group
  std::span<const std::uint32_t> groups{};
  std::optional<std::uint32_t> user_namespace_owner{};
};

// Admits the owner, listed users, members of listed groups, and each process in a user namespace that the owner or a
// listed user created. Such is a rootless container, with other uids inside. uid 0 has no special right: root in a
// container is uid 0 here. Errors: denied.
[[nodiscard]] Result<void> may_enter(const Share& share, const Visitor& visitor);

}  // namespace headgate::tenancy
