#include "base/user_name.hpp"

#include <grp.h>
#include <pwd.h>

#include <array>
#include <cerrno>
#include <vector>

namespace headgate {

std::string user_name(std::uint32_t uid) {
  std::array<char, 4096> text{};
  passwd entry{}, *found = nullptr;
  const bool known = ::getpwuid_r(uid, &entry, text.data(), text.size(), &found) == 0 && found != nullptr;
  return known ? entry.pw_name : std::to_string(uid);
}

std::string group_name(std::uint32_t gid) {
  // Its members are read with it, and may be many.
  for (std::size_t room = 4096; room <= (1u << 20); room *= 4) {
    std::vector<char> text(room);
    ::group entry{}, *found = nullptr;
    const int error = ::getgrgid_r(gid, &entry, text.data(), text.size(), &found);
    if (error == 0 && found != nullptr) return entry.gr_name;
    if (error != ERANGE) break;
  }
  return std::to_string(gid);
}

}  // namespace headgate
