// What people call a user, and a group.
#pragma once

#include <cstdint>
#include <string>

namespace headgate {

// Of this host; "1000" where the uid has no name. Thread-safe; may ask a directory service, and then takes its time.
// Remembered for a minute.
[[nodiscard]] std::string user_name(std::uint32_t uid);
[[nodiscard]] std::string group_name(std::uint32_t gid);

}  // namespace headgate
