#include "node/directory.hpp"

#include <grp.h>
#include <pwd.h>

#include <cerrno>
#include <vector>

namespace headgate::node {

int with_room(const std::function<int(char* room, std::size_t bytes)>& read) {
  constexpr std::size_t kUsual = 16u << 10;
  for (std::size_t bytes = kUsual;; bytes *= 2) {
    std::vector<char> room(bytes);
    int error = 0;
    do {
      error = read(room.data(), room.size());
    } while (error == EINTR);
    if (error != ERANGE || bytes >= kMostEntryBytes) return error;
  }
}

namespace {

// The C library reads a name to its first NUL: "root" and more is not root.
bool is_whole(const std::string& name) { return name.find('\0') == std::string::npos; }

}  // namespace

Directory system_directory() {
  return {.user = [](const std::string& name) -> std::optional<std::uint32_t> {
            if (!is_whole(name)) return std::nullopt;
            passwd entry{}, *found = nullptr;
            const int error = with_room(
                [&](char* room, std::size_t bytes) { return ::getpwnam_r(name.c_str(), &entry, room, bytes, &found); });
            return error != 0 || found == nullptr ? std::nullopt : std::optional(entry.pw_uid);
          },
          .group = [](const std::string& name) -> std::optional<std::uint32_t> {
            if (!is_whole(name)) return std::nullopt;
            ::group entry{}, *found = nullptr;
            const int error = with_room(
                [&](char* room, std::size_t bytes) { return ::getgrnam_r(name.c_str(), &entry, room, bytes, &found); });
            return error != 0 || found == nullptr ? std::nullopt : std::optional(entry.gr_gid);
          }};
}

}  // namespace headgate::node
