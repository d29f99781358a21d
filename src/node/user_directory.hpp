// Looks up users and groups by name in the system's directory: files, or a server of many thousands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace headgate::node {

// Tests replace it; the node asks the system. Errors: busy if no answer came in time.
struct UserDirectory {
  // Return the uid of a user and the gid of a group, by name; empty if there is none.
  std::function<Result<std::optional<std::uint32_t>>(const std::string& name)> user, group;
  // Returns all groups of a user, sorted; none for an unknown user.
  std::function<Result<std::vector<std::uint32_t>>(std::uint32_t uid)> groups_of;
};
// All lookups of one directory together wait for at most a second: they block the loop, and with it each program that
// connects to a share.
[[nodiscard]] UserDirectory system_directory();

// A group's entry holds the names of all its members, which can take megabytes. No entry gets more room than this.
inline constexpr std::size_t kMaxEntryBytes = 16u << 20;

// Calls `read` (getgrnam_r and its kind: 0 or an errno) with more and more room while it returns ERANGE; returns its
// last result.
int with_room(const std::function<int(char* room, std::size_t bytes)>& read);

}  // namespace headgate::node
