// The live shares of a node: each with its pages under RUNTIME/shares/NAME/ and its row in the store.
//
// The store says what a share is, the pages what happens to it. A change of limits reaches running processes at once
// (they have the page mapped and are woken), before it is stored. Not thread-safe: the daemon's loop owns it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "guest/ledger/pages.hpp"
#include "tenancy/admission.hpp"
#include "tenancy/live_share.hpp"
#include "tenancy/runtime_directory.hpp"
#include "tenancy/share.hpp"
#include "tenancy/share_pages.hpp"
#include "tenancy/store.hpp"

namespace headgate::tenancy {

// Per node. Each has the usage page mapped twice under guard.
inline constexpr std::size_t kMaxShares = 4096;
static_assert(SigbusGuard::kMaxGuards > 2 * kMaxShares);

// What open() found.
struct Adoption {
  std::vector<std::string> adopted;    // pages left by a former daemon, perhaps with processes in them
  std::vector<std::string> made_anew;  // stored, but without pages: after a reboot
  std::vector<std::string> unmanaged;  // pages without a row: of `headgate run` without the daemon; left alone
  std::vector<std::pair<std::string, Error>> refused;
};

class Shares {
 public:
  struct Node {
    std::string runtime_dir;  // absolute
    std::vector<Card> cards;
    Reserve reserve;
    std::string proc = "/proc";
  };

  // Adopts existing pages and makes missing ones. Errors: of the store, or the runtime directory cannot be used. A
  // fault of a single share is reported in `adoption`, and stops no other.
  [[nodiscard]] static Result<Shares> open(Node node, Store store, Adoption& adoption);

  // Errors: of admit(); conflict if the name is taken; of the store, the pages. After an error there is no share.
  [[nodiscard]] Result<void> create(Share share);
  // Sets new limits, quota-relevant values and members of the share of that name; its GPUs, owner and fail policy stay.
  // Effective for running processes when the call returns. After an error everything is as before.
  [[nodiscard]] Result<void> set(const Share& share) { return set(std::span(&share, 1)); }
  // As above for several shares at once, each of another name. Admission sees all of them as they will be, so two can
  // swap what they were promised. Stored in one transaction.
  [[nodiscard]] Result<void> set(std::span<const Share> wanted);
  [[nodiscard]] Result<void> pause(const std::string& name);
  [[nodiscard]] Result<void> resume(const std::string& name);
  // Admits no process and gives no memory until resume(); work goes on. Like a pause it outlives a reboot.
  [[nodiscard]] Result<void> drain(const std::string& name);
  // Changes the page, but not the row: the next daemon comes to the same from the row's time. Leaves a share without
  // pages as it is.
  static void set_time_over(LiveShare& live, bool over);
  // Makes its processes give back what their pools hold unused, once.
  [[nodiscard]] Result<void> reclaim(const std::string& name);
  // Attaches the command with that pid until it ends: the share is not removed meanwhile, even if no process is in it.
  // Kept over restarts of the daemon if the share goes with its last process. `invited`: its user. Errors: not_found;
  // no_capacity; of the store.
  [[nodiscard]] Result<void> attach_run(const std::string& name, std::uint32_t pid,
                                        std::optional<InvitedUser> invited = {});
  // Returns how many of them live, except `but`. Those of an invited user count while the share lets that user in: the
  // owner cannot end them, but can remove the user.
  [[nodiscard]] std::size_t staying(const std::string& name, std::uint32_t but = 0);
  // `by`: the asking process, 0: none of those attached. Errors: not_found; conflict while processes are in it or
  // commands attached. If the pages are damaged, /proc is searched for processes, as tenants can write anything into
  // the pages. A call may search only a part, and return failed: the next continues there.
  [[nodiscard]] Result<void> remove(const std::string& name, std::uint32_t by = 0);

  // Returns why a share cannot be entered or changed: its pages cannot be used, or were removed by hand. Empty if it
  // can.
  [[nodiscard]] std::optional<Error> trouble_of(const LiveShare& live) const;
  // Returns null if there is none. Pointers last until the share is removed.
  [[nodiscard]] LiveShare* find(const std::string& name);
  // Returns all, by name.
  [[nodiscard]] const std::map<std::string, LiveShare>& list() const { return shares_; }
  [[nodiscard]] std::map<std::string, LiveShare>& list() { return shares_; }

  // Checks whether a share made now could be stored. Errors: of Store::check().
  [[nodiscard]] Result<void> check_store() { return store_.check(); }
  [[nodiscard]] const std::vector<Quota>& quotas() const { return quotas_; }
  [[nodiscard]] Result<void> set_quota(const Quota& quota);
  [[nodiscard]] Result<void> remove_quota(Quota::Subject subject, std::uint32_t id);

  // The GPUs' policies as Store keeps them; the caller interprets them. `policy` empty: as the configuration says, from
  // now on.
  [[nodiscard]] const std::map<std::string, std::string>& gpu_policies() const { return gpu_policies_; }
  [[nodiscard]] Result<void> set_gpu_policy(const std::string& uuid, const std::string& policy);

  [[nodiscard]] Room room_on(const Card& card) const;
  [[nodiscard]] Committed committed_on(const Card& card) const;
  // Returns the shares as their owners asked for them.
  [[nodiscard]] std::vector<Share> rows() const;
  // Calls `use` with all that admission has to know, which goes with the call.
  template <typename Use>
  auto with_books(Use&& use) const {
    const std::vector<Share> all = rows();
    const std::vector<Excess> past = past_limits();
    return use(Books{node_.cards, all, quotas_, node_.reserve, past});
  }
  [[nodiscard]] const Node& node() const { return node_; }
  [[nodiscard]] const RuntimeDirectory& runtime() const { return runtime_; }
  [[nodiscard]] std::string directory(const std::string& name) const { return runtime_.of(name); }

 private:
  Shares(Node node, RuntimeDirectory runtime, Store store)
      : node_(std::move(node)), runtime_(std::move(runtime)), store_(std::move(store)) {}

  Result<void> adopt(Share share, Adoption& adoption);
  Result<void> adopt_pages(LiveShare& live, Adoption& adoption);
  Result<LiveShare*> usable(const std::string& name);
  std::vector<Run> holding(LiveShare& live, std::uint32_t but) const;
  Result<void> command(const std::string& name, ledger::Command command);
  Result<void> discard(LiveShare& live, const std::string& name);
  Result<void> forget_row(LiveShare& live, const std::string& name);
  std::vector<Excess> past_limits() const;
  Result<void> may_become(const LiveShare& live, const Share& wanted) const;
  Result<void> admit_together(std::span<const Share> wanted) const;
  Result<void> apply_or_undo(std::span<const ledger::ShareGrant> grants, std::span<LiveShare* const> lives);

  Node node_;
  RuntimeDirectory runtime_;
  Store store_;
  std::map<std::string, LiveShare> shares_;
  std::vector<Quota> quotas_;
  std::map<std::string, std::string> gpu_policies_;  // by UUID
  std::map<std::string, MappingScan> page_users_;    // searches in progress, by share
};

}  // namespace headgate::tenancy
