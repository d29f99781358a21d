#include "base/user_name.hpp"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/nss_lookup.hpp"

namespace headgate {

namespace {

// Snapshots name the same users each second, and a directory service may be slow. Until it answers, the number is used.
class Remembered {
 public:
  std::string name(std::uint32_t id, std::string (*find)(std::uint32_t)) {
    const auto begun = Clock::now();
    Clock::duration patience{};
    {
      const std::scoped_lock lock(mutex_);
      if (names_.size() >= kMost && !names_.contains(id)) names_.clear();
      Entry& known = names_.try_emplace(id, Entry{std::to_string(id), begun}).first->second;
      if (known.until > begun) return known.name;
      known.until = begun + kAgain;
      if (begun - renewed_ >= kAgain) renewed_ = begun, waited_ = {};
      patience = std::max(kPatience - waited_, Clock::duration::zero());
    }
    const auto found = [this, id, find] {
      std::string name = find(id);
      const std::scoped_lock lock(mutex_);
      names_[id] = {std::move(name), Clock::now() + kFor};
    };
    (void)nss_lookup(found, std::chrono::ceil<std::chrono::milliseconds>(patience));
    const std::scoped_lock lock(mutex_);
    waited_ += Clock::now() - begun;
    const auto known = names_.find(id);
    return known == names_.end() ? std::to_string(id) : known->second.name;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kFor{60};
  static constexpr std::chrono::seconds kAgain{5};  // after no answer
  // Total wait for all names; it is renewed every kAgain.
  static constexpr Clock::duration kPatience = std::chrono::milliseconds(200);
  static constexpr std::size_t kMost = 16'384;
  struct Entry {
    std::string name;
    Clock::time_point until;
  };
  std::mutex mutex_;  // guards all below
  Clock::time_point renewed_{};
  Clock::duration waited_{};  // since renewed_
  std::unordered_map<std::uint32_t, Entry> names_;
};

std::string find_user(std::uint32_t uid) {
  std::array<char, 4096> text{};
  passwd entry{}, *found = nullptr;
  const bool known = ::getpwuid_r(uid, &entry, text.data(), text.size(), &found) == 0 && found != nullptr;
  return known ? entry.pw_name : std::to_string(uid);
}

std::string find_group(std::uint32_t gid) {
  // The entry includes the group's members, which may be many.
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
