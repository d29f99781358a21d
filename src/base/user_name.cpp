#include "base/user_name.hpp"

#include <pwd.h>

#include <array>

namespace headgate {

std::string user_name(std::uint32_t uid) {
  std::array<char, 4096> text{};
  passwd entry{}, *found = nullptr;
  const bool known = ::getpwuid_r(uid, &entry, text.data(), text.size(), &found) == 0 && found != nullptr;
  return known ? entry.pw_name : std::to_string(uid);
}

}  // namespace headgate
