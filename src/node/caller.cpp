#include "node/caller.hpp"

#include <algorithm>

namespace headgate::node {

bool Caller::sees(std::uint32_t owner_uid, std::span<const std::uint32_t> users,
                  std::span<const std::uint32_t> groups) const {
  if (owns(owner_uid)) return true;
  return known() &&
         (std::ranges::find(users, uid) != users.end() || std::ranges::find_first_of(groups, gids) != groups.end());
}

}  // namespace headgate::node
