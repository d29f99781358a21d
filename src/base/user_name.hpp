// Names of users and groups.
#pragma once

#include <cstdint>
#include <string>

namespace headgate {

// Returns the name on this host; "1000" if the uid has none. Cached for a minute. May wait for a directory service.
// Thread-safe.
[[nodiscard]] std::string user_name(std::uint32_t uid);
[[nodiscard]] std::string group_name(std::uint32_t gid);

}  // namespace headgate
