// The daemon's runtime directory: the directories of shares in it, and the room that its file system has for more.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "guest/ledger/pages.hpp"
#include "tenancy/share_pages.hpp"

namespace headgate::tenancy {

// What is left in a file system. size_bytes 0: it has no limit.
struct RuntimeRoom {
  std::uint64_t free_bytes = 0, size_bytes = 0, free_files = 0, files = 0;

  // Returns whether an administrator should act. That is so if less is free than 64 shares take, or than a quarter of
  // the file system, whichever is less.
  [[nodiscard]] bool is_low() const;
};

class RuntimeDirectory {
 public:
  // Makes the directory if it is missing. Errors: usage, if the path is not absolute; of the file system.
  [[nodiscard]] static Result<RuntimeDirectory> open(const std::string& path);

  // Returns RUNTIME/shares/NAME: mounted into containers, and HEADGATE_SHARE_DIR outside them.
  [[nodiscard]] std::string of(const std::string& name) const { return path_ + "/shares/" + name; }
  // Guards pages that were opened there, and lets tenants reach the share's socket. Errors: no_capacity, if too many
  // are guarded; of the files.
  [[nodiscard]] Result<std::unique_ptr<Pages>> hold(const std::string& name, ledger::SharePages pages) const;
  // Writes the policy for programs that find no daemon: they may open no page, and their environment must not weaken
  // the share's policy.
  [[nodiscard]] Result<void> tell_fail_policy(const std::string& name, ledger::FailPolicy policy) const;
  // Removes a share's directory, whatever is in it.
  [[nodiscard]] Result<void> remove(const std::string& name) const;
  // Ends removals that were cut off. Returns the names of all directories of shares, sorted.
  [[nodiscard]] std::vector<std::string> sweep() const;

  // Checks whether the file system has room for the pages of `more` shares. Errors: no_capacity.
  [[nodiscard]] Result<void> check_room(std::uint64_t more = 1) const;
  // Shares that only administrators may still make when room runs out: users cannot fill the node.
  static constexpr std::uint64_t kKeptForAdministrators = 16;
  // Errors: of statvfs(2).
  [[nodiscard]] Result<RuntimeRoom> room() const;

 private:
  explicit RuntimeDirectory(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace headgate::tenancy
