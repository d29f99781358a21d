// Whom a uid belongs to: subordinate uids (subuid(5)) and those of a user namespace cost their user nothing, so what is
// bounded by user counts them as that user.
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

// /etc/subuid from its text: lines of USER:FIRST:COUNT, where USER is a name or a uid. Lines that are not of this form,
// and names that `uid_of` does not know, are left out. Sorted by `first`.
[[nodiscard]] std::vector<SubordinateUids> parse_subordinate_uids(
    std::string_view text, const std::function<std::optional<std::uint32_t>(const std::string& name)>& uid_of);

// The user who has this uid as a subordinate one, else the uid itself.
[[nodiscard]] std::uint32_t user_of_subordinate(std::uint32_t uid, const std::vector<SubordinateUids>& all);

// The same by /etc/subuid of this host, which is read again when it changes; a name that the directory of users does
// not tell within 200 ms is asked for again 5 s later. Thread-safe.
[[nodiscard]] std::uint32_t user_of_subordinate(std::uint32_t uid);

// Returns the user that answers for a process: the maker of the outermost user namespace around it that is not ours. If
// that is root, which makes them for others, or there is none: the user of its uid.
[[nodiscard]] std::uint32_t answerable_user(std::uint32_t uid, std::optional<std::uint32_t> user_namespace_owner);

// The same of the process that connected with that uid; `proc`: see process.hpp. Its uid alone decides where the process
// has ended, or its number is another's by now.
[[nodiscard]] std::uint32_t answerable_user(const std::string& proc, std::uint32_t pid, std::uint32_t uid);

}  // namespace headgate::identity
