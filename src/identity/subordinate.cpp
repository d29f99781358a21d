#include "identity/subordinate.hpp"

#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>

#include "base/nss_lookup.hpp"
#include "base/whole_file.hpp"
#include "base/whole_number.hpp"
#include "identity/peer.hpp"
#include "identity/process.hpp"

namespace headgate::identity {
namespace {

constexpr const char* kSubordinateFile = "/etc/subuid";
constexpr std::chrono::milliseconds kNamePatience{200};
constexpr std::chrono::seconds kLookAgain{5};

std::optional<std::uint32_t> find_uid(const std::string& name) {
  std::array<char, 4096> text{};
  passwd entry{}, *found = nullptr;
  const bool known = ::getpwnam_r(name.c_str(), &entry, text.data(), text.size(), &found) == 0 && found != nullptr;
  return known ? std::optional<std::uint32_t>(entry.pw_uid) : std::nullopt;
}

class HostTable {
 public:
  std::uint32_t user_of(std::uint32_t uid) {
    const std::scoped_lock lock(mutex_);
    refresh();
    return user_of_subordinate(uid, ranges_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void refresh() {
    struct stat facts{};
    if (::stat(kSubordinateFile, &facts) != 0) facts = {};
    const bool same = read_once_ && facts.st_ino == inode_ && facts.st_size == bytes_ &&
                      facts.st_mtim.tv_sec == changed_.tv_sec && facts.st_mtim.tv_nsec == changed_.tv_nsec;
    if (same && (complete_ || Clock::now() < again_)) return;
    read_once_ = true;
    inode_ = facts.st_ino, bytes_ = facts.st_size, changed_ = facts.st_mtim;
    again_ = Clock::now() + kLookAgain;
    const auto text = read_whole_file(kSubordinateFile, kMostBytes);
    if (!text) {
      ranges_.clear();
      complete_ = true;
      return;
    }
    // One wait for all names together.
    auto made = std::make_shared<std::vector<SubordinateUids>>();
    complete_ =
        nss_lookup([made, text = text->text] { *made = parse_subordinate_uids(text, find_uid); }, kNamePatience);
    if (complete_) ranges_ = std::move(*made);
  }

  static constexpr std::size_t kMostBytes = 4u << 20;
  std::mutex mutex_;  // guards all below
  std::vector<SubordinateUids> ranges_;
  bool read_once_ = false, complete_ = false;
  Clock::time_point again_{};
  ino_t inode_ = 0;
  off_t bytes_ = 0;
  timespec changed_{};
};

}  // namespace

std::vector<SubordinateUids> parse_subordinate_uids(
    std::string_view text, const std::function<std::optional<std::uint32_t>(const std::string& name)>& uid_of) {
  std::vector<SubordinateUids> all;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t first_colon = line.find(':');
    const std::size_t second_colon = first_colon == line.npos ? line.npos : line.find(':', first_colon + 1);
    if (second_colon == line.npos || first_colon == 0) continue;
    const std::string user(line.substr(0, first_colon));
    const auto first = whole_number<std::uint32_t>(line.substr(first_colon + 1, second_colon - first_colon - 1));
    const auto count = whole_number<std::uint32_t>(line.substr(second_colon + 1));
    if (!first || !count || *count == 0 || *count - 1 > ~0u - *first) continue;
    auto uid = whole_number<std::uint32_t>(user);
    if (!uid) uid = uid_of(user);
    if (uid) all.push_back({*first, *count, *uid});
  }
  std::ranges::stable_sort(all, {}, &SubordinateUids::first);
  return all;
}

std::uint32_t user_of_subordinate(std::uint32_t uid, const std::vector<SubordinateUids>& all) {
  // Ranges may overlap by mistake: take the last one that starts at or before the uid and contains it.
  auto at = std::ranges::upper_bound(all, uid, {}, &SubordinateUids::first);
  while (at != all.begin()) {
    --at;
    if (uid - at->first < at->count) return at->user;
  }
  return uid;
}

std::uint32_t user_of_subordinate(std::uint32_t uid) {
  static HostTable& table = *new HostTable;
  return table.user_of(uid);
}

std::uint32_t answerable_user(std::uint32_t uid, std::optional<std::uint32_t> user_namespace_owner) {
  const std::uint32_t maker = user_namespace_owner.value_or(0);
  return user_of_subordinate(maker != 0 ? maker : uid);
}

std::uint32_t answerable_user(const std::string& proc, std::uint32_t pid, std::uint32_t uid) {
  const auto before = pid == 0 ? std::nullopt : std::optional(read_process(proc, pid));
  if (!before || !*before || (*before)->uid != uid) return user_of_subordinate(uid);
  const auto owner = foreign_namespace_owner(proc, pid);
  const auto after = read_process(proc, pid);
  const bool is_it = after && after->uid == uid && after->start_time == (*before)->start_time;
  return answerable_user(uid, is_it ? owner : std::nullopt);
}

}  // namespace headgate::identity
