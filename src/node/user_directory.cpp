#include "node/user_directory.hpp"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>

#include "base/nss_lookup.hpp"

namespace headgate::node {

int with_room(const std::function<int(char* room, std::size_t bytes)>& read) {
  constexpr std::size_t kUsual = 16u << 10;
  for (std::size_t bytes = kUsual;; bytes *= 2) {
    std::vector<char> room(bytes);
    int error = 0;
    do {
      error = read(room.data(), room.size());
    } while (error == EINTR);
    if (error != ERANGE || bytes >= kMaxEntryBytes) return error;
  }
}

namespace {

// The C library reads a name to its first NUL: "root" with a NUL and more behind it would be root.
bool is_whole(const std::string& name) { return name.find('\0') == std::string::npos; }

std::optional<std::uint32_t> find_user(const std::string& name) {
  passwd entry{}, *found = nullptr;
  const int error =
      with_room([&](char* room, std::size_t bytes) { return ::getpwnam_r(name.c_str(), &entry, room, bytes, &found); });
  return error != 0 || found == nullptr ? std::nullopt : std::optional(entry.pw_uid);
}

std::optional<std::uint32_t> find_group(const std::string& name) {
  ::group entry{}, *found = nullptr;
  const int error =
      with_room([&](char* room, std::size_t bytes) { return ::getgrnam_r(name.c_str(), &entry, room, bytes, &found); });
  return error != 0 || found == nullptr ? std::nullopt : std::optional(entry.gr_gid);
}

std::vector<std::uint32_t> find_groups_of(const std::uint32_t& uid) {
  std::vector<gid_t> all;
  passwd entry{}, *found = nullptr;
  (void)with_room([&](char* room, std::size_t bytes) {
    const int failed = ::getpwuid_r(uid, &entry, room, bytes, &found);
    if (failed != 0 || found == nullptr) return failed;
    // The name lies in `room`. If there are more groups than fit, the call returns their number.
    int count = 64, had = 0;
    do {
      had = count;
      all.resize(static_cast<std::size_t>(count));
    } while (::getgrouplist(entry.pw_name, entry.pw_gid, all.data(), &count) < 0 && count > had);
    all.resize(static_cast<std::size_t>(std::max(count, 0)));
    return 0;
  });
  std::ranges::sort(all);
  return all;
}

// Runs `find`(`key`) on the directory's thread, until `deadline`.
template <typename Answer, typename Key>
Result<Answer> ask(Answer (*find)(const Key&), const Key& key, std::chrono::steady_clock::time_point deadline) {
  const auto answer = std::make_shared<Answer>();
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  if (!nss_lookup([find, key, answer] { *answer = find(key); }, std::max(left, std::chrono::milliseconds(0))))
    return fail(ErrorCode::busy, "the system's directory of users and groups does not answer",
                "try again, or write numbers instead of names; getent passwd says whether it does");
  return *answer;
}

}  // namespace

UserDirectory system_directory() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  const auto by_name = [deadline](std::optional<std::uint32_t> (*find)(const std::string&)) {
    return [deadline, find](const std::string& name) -> Result<std::optional<std::uint32_t>> {
      if (!is_whole(name)) return std::nullopt;
      return ask(find, name, deadline);
    };
  };
  return {.user = by_name(find_user), .group = by_name(find_group), .groups_of = [deadline](std::uint32_t uid) {
            return ask(find_groups_of, uid, deadline);
          }};
}

}  // namespace headgate::node
