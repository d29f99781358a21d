// Who users and groups are, by the names that the system's directory knows: files, or a server of many thousands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace headgate::node {

// For tests; the node asks the system. Errors: busy, where no answer came in time.
struct UserDirectory {
  // Uid of a user, gid of a group, by name; empty where there is none.
  std::function<Result<std::optional<std::uint32_t>>(const std::string& name)> user, group;
  // All groups of a user, sorted; none of somebody whom it does not know.
  std::function<Result<std::vector<std::uint32_t>>(std::uint32_t uid)> groups_of;
};
// All that is asked of one together is waited for no longer than a second: whoever asks keeps the loop waiting, and
// with it each program that knocks at a share.
[[nodiscard]] UserDirectory system_directory();

// A group's entry holds the names of all its members: some are megabytes long. No entry is given more room than this.
inline constexpr std::size_t kMaxEntryBytes = 16u << 20;

// Calls `read` (getgrnam_r and its kind: 0 or an errno) with more and more room for as long as it says ERANGE, and
// returns what it said last.
int with_room(const std::function<int(char* room, std::size_t bytes)>& read);

}  // namespace headgate::node
