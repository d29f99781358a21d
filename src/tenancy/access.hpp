// Who may enter a share. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "tenancy/share.hpp"

namespace headgate::tenancy {

// By the kernel's word, as in identity::Peer.
struct Visitor {
  std::uint32_t uid = ~0u, gid = ~0u;  // ~0u: nobody, and no group
  std::span<const std::uint32_t> groups{};
  std::optional<std::uint32_t> user_namespace_owner{};
};

// The owner, listed users, members of listed groups; and whoever lives in a user namespace that one of the owner and
// the listed users made (a rootless container, whose inner users have uids of their own). uid 0 is nobody special: root
// in a container is uid 0 here. Errors: denied.
[[nodiscard]] Result<void> may_enter(const Share& share, const Visitor& visitor);

}  // namespace headgate::tenancy
