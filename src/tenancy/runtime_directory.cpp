#include "tenancy/runtime_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/unique_fd.hpp"
#include "base/units.hpp"
#include "guest/ledger/registration.hpp"
#include "tenancy/share.hpp"

namespace headgate::tenancy {
namespace {

constexpr std::uint64_t kFilesOfAShare = 8;  // its directory, pages, socket, and some to spare
constexpr std::uint64_t kBytesOfAShare = sizeof(ledger::PolicyPage) + sizeof(ledger::UsagePage);
// Others may traverse it to a share's socket, but not list it: share names are private to their owners.
constexpr mode_t kPassage = 0711;
// Names a directory while it is removed; no share has such a name.
constexpr const char* kAside = ".removed-";

Result<void> open_passage(const std::string& path) {
  if (::chmod(path.c_str(), kPassage) != 0) return fail_errno(path, errno);
  return {};
}

}  // namespace

Result<RuntimeDirectory> RuntimeDirectory::open(const std::string& path) {
  if (!path.starts_with('/'))
    return fail(ErrorCode::usage, "the runtime directory '" + escape_untrusted(path) + "' is not an absolute path");
  // 0755: a process passes through here to reach a tenant socket.
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return fail_errno("the runtime directory " + path, errno);
  const std::string folder = path + "/shares";
  if (::mkdir(folder.c_str(), kPassage) != 0 && errno != EEXIST) return fail_errno(folder, errno);
  TRY(open_passage(folder));
  return RuntimeDirectory(path);
}

Result<std::unique_ptr<Pages>> RuntimeDirectory::hold(const std::string& name, ledger::SharePages pages) const {
  const std::string place = of(name);
  UniqueFd usage(::open((place + "/usage").c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  const int error = errno;
  auto held = std::make_unique<Pages>(pages, open_read_only_mount(place, "policy"), std::move(usage));
  if (!held->guarded()) return std::unexpected(unguarded(name));
  if (held->usage_fd() < 0) return fail_errno(place + "/usage", error);
  if (held->policy_fd() < 0) return fail_errno(place + "/policy", errno);
  TRY(open_passage(place));
  return held;
}

Result<void> RuntimeDirectory::tell_fail_policy(const std::string& name, ledger::FailPolicy policy) const {
  const std::string path = of(name) + "/" + ledger::kFailPolicyFile, aside = path + ".new";
  const std::string_view word = policy == ledger::FailPolicy::closed ? "closed\n" : "open\n";
  (void)::unlink(aside.c_str());
  const UniqueFd file(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file) return fail_errno(aside, errno);
  if (::fchmod(file.get(), 0644) != 0 ||
      ::write(file.get(), word.data(), word.size()) != static_cast<ssize_t>(word.size()) ||
      ::rename(aside.c_str(), path.c_str()) != 0)
    return fail_errno(path, errno);
  return {};
}

std::vector<std::string> RuntimeDirectory::sweep() const {
  std::vector<std::string> shares;
  std::error_code error;
  for (std::filesystem::directory_iterator at(path_ + "/shares", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (name.starts_with(kAside)) std::filesystem::remove_all(at->path(), ignored);
    if (!name.starts_with('.')) shares.push_back(name);
  }
  std::ranges::sort(shares);
  return shares;
}

Result<void> RuntimeDirectory::remove(const std::string& name) const {
  // Rename it first: a kill in between leaves no half share.
  const std::string place = of(name), aside = path_ + "/shares/" + kAside + name;
  std::error_code error;
  std::filesystem::remove_all(aside, error);
  if (::rename(place.c_str(), aside.c_str()) != 0 && errno != ENOENT) return fail_errno("removing " + place, errno);
  std::filesystem::remove_all(aside, error);
  return {};
}

Result<RuntimeRoom> RuntimeDirectory::room() const {
  struct statvfs room{};
  if (::statvfs(path_.c_str(), &room) != 0) return fail_errno(path_, errno);
  return RuntimeRoom{.free_bytes = room.f_bavail * room.f_frsize,
                     .size_bytes = room.f_blocks * room.f_frsize,
                     .free_files = room.f_favail,
                     .files = room.f_files};
}

bool RuntimeRoom::is_low() const {
  constexpr std::uint64_t kShares = 64;
  return (size_bytes != 0 && free_bytes < std::min(kShares * kBytesOfAShare, size_bytes / 4)) ||
         (files != 0 && free_files < std::min(kShares * kFilesOfAShare, files / 4));
}

Result<void> RuntimeDirectory::check_room(std::uint64_t more) const {
  const RuntimeRoom room = TRY(this->room());
  // A file system without a limit reports none.
  const bool full = room.size_bytes != 0 && room.free_bytes < more * kBytesOfAShare;
  const bool no_names = room.files != 0 && room.free_files < more * kFilesOfAShare;
  if (!full && !no_names) return {};
  return fail(ErrorCode::no_capacity,
              "the file system of " + path_ + " is full: " + bytes_text(room.free_bytes) + " and " +
                  std::to_string(room.free_files) + " files are left, and a share takes " + bytes_text(kBytesOfAShare) +
                  " and " + std::to_string(kFilesOfAShare) +
                  (more > 1 ? "; the last " + std::to_string(more - 1) + " are kept for administrators" : ""),
              "du -a " + path_ +
                  " says what fills it; where it is its own (run-headgate.mount): mount -o remount,size=1G " + path_);
}

}  // namespace headgate::tenancy
