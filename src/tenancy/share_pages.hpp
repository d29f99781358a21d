// The pages of one share as its owner has them: mapped, guarded against tenants that cut the file short, and written
// from the share's row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "guest/ledger/pages.hpp"
#include "identity/process.hpp"
#include "tenancy/share.hpp"
#include "tenancy/sigbus_guard.hpp"

namespace headgate::tenancy {

// The owner's mapping of a share's two pages, and the descriptors that tenants get of them.
class Pages {
 public:
  Pages(ledger::SharePages pages, UniqueFd policy, UniqueFd usage);
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages();

  [[nodiscard]] ledger::PolicyPage& policy() { return *pages_.writable_policy; }
  [[nodiscard]] const ledger::PolicyPage& policy() const { return *pages_.policy; }
  // A tenant may have written anything there: read it with the ledger's functions only.
  [[nodiscard]] ledger::UsagePage& usage() { return *pages_.usage; }
  [[nodiscard]] const ledger::UsagePage& usage() const { return *pages_.usage; }
  [[nodiscard]] int policy_fd() const { return policy_.get(); }  // opened for reading only
  [[nodiscard]] int usage_fd() const { return usage_.get(); }
  [[nodiscard]] std::uint64_t usage_inode() const { return usage_inode_; }
  // Cuts the usage file back if a tenant has made it longer, which fills the file system that all shares use. Returns
  // how long it was; 0 if nothing was done.
  std::uint64_t cut_growth();
  // Returns false if the files were removed or replaced: opening them by name finds none, or others.
  [[nodiscard]] bool in_place(const std::string& directory) const;
  // Returns false if there were too many guards: a tenant that shortens the file would end us.
  [[nodiscard]] bool guarded() const { return static_cast<bool>(guard_); }
  // Returns whether a tenant has shortened the file: what we read since then is zeroes.
  [[nodiscard]] bool truncated() const { return guard_.truncated(); }

 private:
  ledger::SharePages pages_;
  UniqueFd policy_, usage_;
  std::uint64_t usage_inode_ = 0;
  SigbusGuard guard_;
};

// Cuts a usage file that a tenant has made too long, by its descriptor. For shares that are not used, and before the
// file is checked. A file of another headgate version may be four times as long. Returns how long it was; 0 if
// unchanged.
std::uint64_t cut_usage_file(const std::string& directory);

// The error of a share that is not used because its page cannot be guarded.
[[nodiscard]] Error unguarded(const std::string& share);

// Writes a row's limits into the page, device by device: rows keep the order in which the pages were made. After an
// error the page is as before.
[[nodiscard]] Result<void> apply_limits(const ledger::ShareGrant& grant, Pages& pages, const std::string& base);
// Writes what a program may wait for (admission, memory), and when it is frozen.
void apply_waiting(const Share& share, Pages& pages);

// Returns what its programs hold on a GPU by the account: allocations, contexts and code.
[[nodiscard]] std::uint64_t held_on(const Pages& pages, const std::string& uuid);

// Opens DIRECTORY/NAME for reading. With CAP_SYS_ADMIN it goes through a detached read-only mount, so that
// /proc/self/fd gives a tenant that is root no writable descriptor (Linux 5.12). Without, only the file's permissions
// protect it. Returns an empty descriptor and sets errno if it cannot be opened.
[[nodiscard]] UniqueFd open_read_only_mount(const std::string& directory, const std::string& name);

// Finds the processes that use a usage page after a tenant has damaged its contents. The search is done in parts: a
// user can make it long with many mappings, or with many processes that have some.
class MappingScan {
 public:
  // Succeeds if no process but this one has the usage page in `place`, the share's directory, mapped. Errors: conflict
  // (names the process that has), failed (not done: the next call continues; or `proc` does not show it).
  [[nodiscard]] Result<void> none(const std::string& share, const std::string& place, std::uint64_t inode,
                                  const std::string& proc);

 private:
  std::vector<std::pair<std::uint32_t, std::uint32_t>> processes_;  // pid and start time; a user may start many
  std::size_t next_ = 0;
  std::optional<identity::MapsSearch> search_;  // of processes_[next_]
};

}  // namespace headgate::tenancy
