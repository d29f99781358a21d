// Shares, quotas and GPU policies that survive a reboot: one SQLite file.
//
// A change is stored whole or not at all, and is on the disk when the call returns (write-ahead log, synchronous). A
// file that is corrupt, of a newer headgate or another program's is refused, never repaired or overwritten. One thread
// at a time: the daemon's loop, which waits at most 25 ms for another program that writes to the file. Errors: busy
// after that time; denied for shares and quotas if the file was removed.
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
  // Opens or creates the file; an older schema is updated in one transaction. Errors: denied (cannot be written),
  // failed (corrupt, or not ours), unsupported (a newer headgate's), no_capacity (disk full).
  [[nodiscard]] static Result<Store> open(const std::string& path);
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  // Sorted by name. Errors: failed if a row cannot be one of ours.
  [[nodiscard]] Result<std::vector<Share>> shares();
  [[nodiscard]] Result<std::vector<Quota>> quotas();

  // Checks whether a write could succeed now, without writing or waiting. Errors: denied (the file is gone, or no
  // longer writable), no_capacity (disk full), busy (another program holds it).
  [[nodiscard]] Result<void> check();

  // Adds the share, or replaces the one of its name.
  [[nodiscard]] Result<void> put(const Share& share) { return put(std::span(&share, 1)); }
  // As above for several shares, in one transaction.
  [[nodiscard]] Result<void> put(std::span<const Share> shares);
  // A share that is not there is no error.
  [[nodiscard]] Result<void> remove_share(const std::string& name);
  // Notes that the share's pages are about to be removed, or are not after all. If the daemon is killed before
  // remove_share(), the next one knows what was asked for.
  [[nodiscard]] Result<void> note_removal(const std::string& name, bool begun);
  [[nodiscard]] Result<bool> removal_begun(const std::string& name);

  // The command for the share's processes, until another replaces it; run if none was noted. Stays when put() replaces
  // the share.
  [[nodiscard]] Result<void> put_command(const std::string& share, ledger::Command command);
  [[nodiscard]] Result<ledger::Command> command_of(const std::string& share);

  // The commands that wait in shares, by share, kept for the next daemon.
  [[nodiscard]] Result<std::map<std::string, std::vector<Run>>> runs();
  // Replaces the stored commands of that share.
  [[nodiscard]] Result<void> put_runs(const std::string& share, const std::vector<Run>& runs);

  [[nodiscard]] Result<void> put(const Quota& quota);
  [[nodiscard]] Result<void> remove_quota(Quota::Subject subject, std::uint32_t id);

  // Policies that an administrator has set, by UUID: a schedule's name. Other GPUs follow the configuration.
  [[nodiscard]] Result<std::map<std::string, std::string>> gpu_policies();
  [[nodiscard]] Result<void> put_gpu_policy(const std::string& uuid, const std::string& policy);
  // A policy that is not there is no error.
  [[nodiscard]] Result<void> remove_gpu_policy(const std::string& uuid);

 private:
  explicit Store(std::unique_ptr<Database> database);
  Result<void> put_rows(const Share& share);

  std::unique_ptr<Database> database_;
};

}  // namespace headgate::tenancy
