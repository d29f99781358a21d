// The caller of an operation, and what of others' shares it may see and change.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace headgate::node {

// Credentials as the kernel reports them.
struct Caller {
  std::uint32_t uid = ~0u;
  std::vector<std::uint32_t> gids;
  bool administrator = false;  // root, the daemon's own user, or the control group
  std::uint32_t pid = 0;       // of the caller on the control socket; 0: unknown

  // Returns whether the caller may change a share of that owner.
  [[nodiscard]] bool owns(std::uint32_t owner_uid) const { return administrator || (known() && uid == owner_uid); }
  // Returns whether the caller may see a share with these users and groups in full: users let in by name may.
  [[nodiscard]] bool sees(std::uint32_t owner_uid, std::span<const std::uint32_t> users,
                          std::span<const std::uint32_t> groups) const {
    if (owns(owner_uid)) return true;
    return known() &&
           (std::ranges::find(users, uid) != users.end() || std::ranges::find_first_of(groups, gids) != groups.end());
  }
  // False over TCP without a token: such a caller sees totals, and makes and changes nothing.
  [[nodiscard]] bool known() const { return uid != ~0u; }
};

}  // namespace headgate::node
