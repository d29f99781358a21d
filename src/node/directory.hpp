// Who users and groups are, by the names that the system's directory knows: files, or a server of many thousands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace headgate::node {

// Uid of a user, gid of a group, by name; empty where there is none. For tests; the node asks the system.
struct Directory {
  std::optional<std::uint32_t> (*user)(const std::string& name);
  std::optional<std::uint32_t> (*group)(const std::string& name);
};
[[nodiscard]] Directory system_directory();

// A group's entry holds the names of all its members: some are megabytes long. No entry is given more room than this.
inline constexpr std::size_t kMostEntryBytes = 16u << 20;

// Calls `read` (getgrnam_r and its kind: 0 or an errno) with more and more room for as long as it says ERANGE, and returns what it
// said last.
int with_room(const std::function<int(char* room, std::size_t bytes)>& read);

}  // namespace headgate::node
