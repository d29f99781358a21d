// Who asks for an operation, and what of others' shares he may see and change.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headgate::node {

// Who asks, by the kernel's word.
struct Caller {
  std::uint32_t uid = ~0u;
  std::vector<std::uint32_t> gids;
  bool administrator = false;  // root, the daemon's own user, or the control group
  std::uint32_t pid = 0;       // who asks over the control socket; 0: not known

  // Whether a share is his to change.
  [[nodiscard]] bool owns(std::uint32_t owner_uid) const { return administrator || (known() && uid == owner_uid); }
  // Whether a share into which these users and groups are let is his to see in full: whoever was let in by name may.
  [[nodiscard]] bool sees(std::uint32_t owner_uid, std::span<const std::uint32_t> users,
                          std::span<const std::uint32_t> groups) const;
  // Over TCP without a token nobody is: he sees totals, and makes and changes nothing.
  [[nodiscard]] bool known() const { return uid != ~0u; }
};

}  // namespace headgate::node
