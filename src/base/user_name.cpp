#include "base/user_name.hpp"

#include <grp.h>
#include <pwd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ask_directory.hpp"

namespace headgate {

namespace {

// A picture of the node names the same ones each second, and a directory service may take its time for each: a name that is not there
// soon is a number until it is.
class Remembered {
 public:
  std::string name(std::uint32_t id, std::string (*find)(std::uint32_t)) {
    {
      const std::scoped_lock lock(mutex_);
      if (names_.size() >= kMost && !names_.contains(id)) names_.clear();
      const auto now = std::chrono::steady_clock::now();
      Entry& known = names_.try_emplace(id, Entry{std::to_string(id), now}).first->second;
      if (known.until > now) return known.name;
      known.until = now + kAgain;
    }
    const auto found = [this, id, find] {
      std::string name = find(id);
      const std::scoped_lock lock(mutex_);
      names_[id] = {std::move(name), std::chrono::steady_clock::now() + kFor};
    };
    (void)ask_directory(found, kPatience);
    const std::scoped_lock lock(mutex_);
    const auto known = names_.find(id);
    return known == names_.end() ? std::to_string(id) : known->second.name;
  }

 private:
  static constexpr std::chrono::seconds kFor{60};
  static constexpr std::chrono::seconds kAgain{5};  // where no answer came
  static constexpr std::chrono::milliseconds kPatience{20};
  static constexpr std::size_t kMost = 16'384;
  struct Entry {
    std::string name;
    std::chrono::steady_clock::time_point until;
  };
  std::mutex mutex_;
  std::unordered_map<std::uint32_t, Entry> names_;
};

std::string find_user(std::uint32_t uid) {
  std::array<char, 4096> text{};
  passwd entry{}, *found = nullptr;
  const bool known = ::getpwuid_r(uid, &entry, text.data(), text.size(), &found) == 0 && found != nullptr;
  return known ? entry.pw_name : std::to_string(uid);
}

std::string find_group(std::uint32_t gid) {
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

}  // namespace

std::string user_name(std::uint32_t uid) {
  static Remembered& users = *new Remembered;
  return users.name(uid, find_user);
}

std::string group_name(std::uint32_t gid) {
  static Remembered& groups = *new Remembered;
  return groups.name(gid, find_group);
}

}  // namespace headgate
