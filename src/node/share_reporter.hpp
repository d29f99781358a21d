// Reports, as events, what becomes of shares: refused memory, waits, frozen and idle programs, unusable pages. Each is
// reported once, until it changes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "node/managed_shares.hpp"
#include "observe/page_check.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::node {

// Returns the share in the snapshot, which may be older than the share and show a former one of that name; null: it is
// not there.
[[nodiscard]] const snapshot::Share* find_in(const snapshot::Snapshot& snapshot, const std::string& name,
                                             const tenancy::LiveShare& live);

class ShareReporter {
 public:
  // `managed` must outlive it.
  explicit ShareReporter(ManagedShares& managed);
  ShareReporter(const ShareReporter&) = delete;

  // Call it about once a second.
  void look(const snapshot::Snapshot& latest);
  // Reports what the share was refused since the last report. Call it when a program of it has ended, whose user may
  // ask why, and before the share is removed: a program that ends on its refusal is then gone with the ledger.
  void look_for_refusals(const std::string& name);
  // Takes why the share cannot be entered; empty: it can.
  void take_trouble(const std::string& name, const std::string& problem);

 private:
  void tell_refusals(const std::string& name, const tenancy::LiveShare& live, const snapshot::Share& seen);
  void tell_given_up(const std::string& name, const tenancy::LiveShare& live, bool driver_seen);
  void tell_waiting(const tenancy::LiveShare& live, const snapshot::Share& seen);
  void tell_frozen(const tenancy::LiveShare& live, const snapshot::Share& seen);
  void tell_idle(const tenancy::LiveShare& live, const snapshot::Share& seen);
  void tell_room();

  ManagedShares& managed_;
  // Of one share, what was reported.
  struct Told {
    bool idle = false, waiting = false, broken = false;
    std::optional<std::uint64_t> frozen_at = {};        // the count of thaws by then
    std::map<std::string, std::uint64_t> refused = {};  // how many, by GPU
    bool counts_refusals = false;
    std::optional<std::uint64_t> given_up_bytes = {};  // of the dead
  };
  std::map<std::string, Told> told_;
  bool told_low_room_ = false;
};

// Finds shares whose usage page a tenant has damaged, and reports the processes that can have done it.
class PageDamage {
 public:
  explicit PageDamage(ManagedShares& managed) : managed_(managed) {}

  // Call it for each GPU that answers, with its memory in bytes.
  void take_card(const std::string& uuid, std::uint64_t bytes) { card_bytes_[uuid] = bytes; }
  // Checks the pages of a share, if it has pages, and truncates what a tenant appended. `now_ns`: of a monotonic clock.
  void look(const std::string& name, tenancy::LiveShare& live, std::uint64_t now_ns);
  void forget(const std::string& name) { checks_.erase(name); }

 private:
  [[nodiscard]] std::uint64_t largest_card_of(const tenancy::Share& share) const;
  void tell(const std::string& name, tenancy::LiveShare& live, const std::string& what);

  ManagedShares& managed_;
  std::map<std::string, observe::PageCheck> checks_;  // by share
  std::map<std::string, std::uint64_t> card_bytes_;   // by UUID, of each GPU that has answered once
};

}  // namespace headgate::node
