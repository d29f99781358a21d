// Shares, quotas and GPUs' policies that survive a reboot: one SQLite file.
//
// A change is all there or not at all, and on the disk when the call returns (write-ahead log, synchronous). A file
// that is corrupt, of a newer headgate or somebody else's is refused, never repaired or overwritten. One thread at a
// time: the daemon's loop, which waits no longer than 25 ms for another program that writes to the file. Errors: busy,
// when that time is over; of shares and quotas denied, where the file was taken away since.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "tenancy/admission.hpp"
#include "tenancy/run_clients.hpp"
#include "tenancy/share.hpp"

namespace headgate::tenancy {

class Database;

class Store {
 public:
  // Opens or makes the file; an older schema is brought up to date in one transaction. Errors: denied (cannot be
  // written), failed (corrupt, or not ours), unsupported (a newer headgate's), no_capacity (disk full).
  [[nodiscard]] static Result<Store> open(const std::string& path);
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  // By name. Errors: failed, where a row cannot be one of ours.
  [[nodiscard]] Result<std::vector<Share>> shares();
  [[nodiscard]] Result<std::vector<Quota>> quotas();

  // Whether something could be written now, without writing. Waits for nobody. Errors: denied (the file is gone, or
  // cannot be written any more), no_capacity (disk full), busy (another program holds it).
  [[nodiscard]] Result<void> check();

  // Adds the share, or replaces the one of its name.
  [[nodiscard]] Result<void> put(const Share& share) { return put(std::span(&share, 1)); }
  // As above for several shares, in one transaction.
  [[nodiscard]] Result<void> put(std::span<const Share> shares);
  // Nothing to remove is no error.
  [[nodiscard]] Result<void> remove_share(const std::string& name);
  // Notes that the share's pages are about to be removed, or are not after all: who is killed before remove_share
  // leaves word of what was asked for.
  [[nodiscard]] Result<void> note_removal(const std::string& name, bool begun);
  [[nodiscard]] Result<bool> removal_begun(const std::string& name);

  // What the share's processes were told to do until they are told otherwise; run where nothing was noted. Stays when
  // put() replaces it.
  [[nodiscard]] Result<void> put_command(const std::string& share, ledger::Command command);
  [[nodiscard]] Result<ledger::Command> command_of(const std::string& share);

  // The commands that wait in shares, by share: so that the next daemon knows them.
  [[nodiscard]] Result<std::map<std::string, std::vector<Run>>> runs();
  // In place of those that were noted.
  [[nodiscard]] Result<void> put_runs(const std::string& share, const std::vector<Run>& runs);

  [[nodiscard]] Result<void> put(const Quota& quota);
  [[nodiscard]] Result<void> remove_quota(Quota::Subject subject, std::uint32_t id);

  // What an administrator has said of a GPU, by UUID: a word of schedule's. Other GPUs follow the configuration.
  [[nodiscard]] Result<std::map<std::string, std::string>> gpu_policies();
  [[nodiscard]] Result<void> put_gpu_policy(const std::string& uuid, const std::string& policy);
  // Nothing to remove is no error.
  [[nodiscard]] Result<void> remove_gpu_policy(const std::string& uuid);

 private:
  explicit Store(std::unique_ptr<Database> database);
  Result<void> put_rows(const Share& share);

  std::unique_ptr<Database> database_;
};

}  // namespace headgate::tenancy
