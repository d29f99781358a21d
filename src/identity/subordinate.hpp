// Maps uids to users for limits per user: subordinate uids (subuid(5)) and those of user namespaces are free to create,
// so they count as their user.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headgate::identity {

struct SubordinateUids {
  std::uint32_t first = 0, count = 0, user = 0;

  friend bool operator==(const SubordinateUids&, const SubordinateUids&) = default;
};

// Parses /etc/subuid: lines of USER:FIRST:COUNT, where USER is a name or a uid. Skips other lines and names that
// `uid_of` does not know. Sorted by `first`.
[[nodiscard]] std::vector<SubordinateUids> parse_subordinate_uids(
    std::string_view text, const std::function<std::optional<std::uint32_t>(const std::string& name)>& uid_of);

// Returns the user that has this subordinate uid, else the uid itself.
[[nodiscard]] std::uint32_t user_of_subordinate(std::uint32_t uid, const std::vector<SubordinateUids>& all);

// The same for this host's /etc/subuid, which is reread when it changes. A name that NSS does not resolve within 200 ms
// is retried after 5 s. Thread-safe.
[[nodiscard]] std::uint32_t user_of_subordinate(std::uint32_t uid);

// Returns the user that answers for a process: the creator of the outermost user namespace around it that is not ours.
// If there is none, or root made it (for others), the user of its uid.
[[nodiscard]] std::uint32_t answerable_user(std::uint32_t uid, std::optional<std::uint32_t> user_namespace_owner);

// Returns the same for the process that connected with that uid; `proc`: see process.hpp. If the process has ended or
// its PID was reused, decides by the uid alone.
[[nodiscard]] std::uint32_t answerable_user(const std::string& proc, std::uint32_t pid, std::uint32_t uid);

}  // namespace headgate::identity
