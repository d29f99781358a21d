// The pages of one share as its owner has them: mapped, guarded against tenants who cut the file short, written by the
// share's row.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "guest/ledger/pages.hpp"
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
  // Whatever a tenant wrote there: read it with the ledger's functions only.
  [[nodiscard]] ledger::UsagePage& usage() { return *pages_.usage; }
  [[nodiscard]] const ledger::UsagePage& usage() const { return *pages_.usage; }
  [[nodiscard]] int policy_fd() const { return policy_.get(); }  // opened for reading only
  [[nodiscard]] int usage_fd() const { return usage_.get(); }
  [[nodiscard]] std::uint64_t usage_inode() const { return usage_inode_; }
  // Cuts the usage file back where a tenant has made it longer, which fills the file system that all shares have in
  // common. How long it was; 0 where nothing was to be done.
  std::uint64_t cut_growth();
  // False where the files were taken away under us: who asks for them by name finds none, or others.
  [[nodiscard]] bool in_place(const std::string& directory) const;
  // False where there were too many guards: a tenant that shortens the file would end us.
  [[nodiscard]] bool guarded() const { return static_cast<bool>(guard_); }
  // A tenant has shortened the file: what we read since then is zeroes.
  [[nodiscard]] bool truncated() const { return guard_.truncated(); }

 private:
  ledger::SharePages pages_;
  UniqueFd policy_, usage_;
  std::uint64_t usage_inode_ = 0;
  SigbusGuard guard_;
};

// Cuts the usage file in a share's directory back where a tenant has made it longer than it should be, by its
// descriptor: for shares that are not used, and before it is judged. A file of another headgate's may be four times as
// long. How long it was; 0: as it was.
std::uint64_t cut_usage_file(const std::string& directory);

// Of a share that is not used because its page cannot be guarded.
[[nodiscard]] Error unguarded(const std::string& share);

// The limits of a page follow the row, device by device: rows keep the order in which the pages were made. After an
// error they are as before.
[[nodiscard]] Result<void> apply_limits(const ledger::ShareGrant& grant, Pages& pages, const std::string& base);
// So does what a program may wait for: leave to enter, memory; and when it is frozen.
void apply_waiting(const Share& share, Pages& pages);
void apply_freeze(const Share& share, Pages& pages);

// What its programs hold on a GPU, by the account: allocations, contexts and code.
[[nodiscard]] std::uint64_t held_on(const Pages& pages, const std::string& uuid);

}  // namespace headgate::tenancy
