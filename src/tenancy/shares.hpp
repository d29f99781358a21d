// The shares of a node, alive: each with its pages under RUNTIME/shares/NAME/ and its row in the store.
//
// The store says what a share is, the pages what happens to it. A change of limits reaches running processes at once
// (they have the page mapped and are woken), before the store is asked. Not thread-safe: the daemon's loop owns it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "guest/ledger/pages.hpp"
#include "tenancy/admission.hpp"
#include "tenancy/mapping_scan.hpp"
#include "tenancy/share.hpp"
#include "tenancy/share_pages.hpp"
#include "tenancy/store.hpp"

namespace headgate::tenancy {

// Of a node. Each has the usage page mapped twice under guard.
inline constexpr std::size_t kMaxShares = 4096;
static_assert(SigbusGuard::kMaxGuards > 2 * kMaxShares);

// What the page of a share says: what its owner said, and that it drains once its time is over. A pause stays one:
// whoever wants the programs to stand still has them set going by no clock.
[[nodiscard]] constexpr ledger::Command command_in_force(ledger::Command said, bool time_over) {
  return time_over ? said | ledger::Command::drain : said;
}

struct LiveShare {
  Share share;
  std::unique_ptr<Pages> pages;  // null where `broken` says why
  std::optional<Error> broken;   // pages of another version, damaged, or gone: still counted, cannot be entered
  std::uint64_t generation = 0;  // of the pages
  ledger::Command said = ledger::Command::run;  // by its owner since it was resumed, as it is stored
  bool time_over = false;                       // as Shares::set_time_over() was told last
  std::string damage;     // what was found in the usage page that no limiter writes there; empty: nothing
  std::vector<Run> runs;  // commands that wait in it, perhaps ended since
  // By UUID, if the limit was lowered: the most that was committed to the share before. A tenant can write any figure
  // into its account, so it never counts for more than that.
  std::map<std::string, std::uint64_t> committed_before;
  std::string accusation;  // the same, found by who looks after its processes, for who tells of damage; half a sentence

  // Its account says nothing any more: a tenant has written there, or shortened the page.
  [[nodiscard]] bool distrusted() const;
  [[nodiscard]] bool paused() const;
};

// What a start has found.
struct Adoption {
  std::vector<std::string> adopted;    // pages that a former daemon left, perhaps with processes in them
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

  // Adopts what is there and makes anew what is not. Errors: of the store, or where the runtime directory cannot be
  // used; what is wrong with a single share is told in `adoption`, and stops no other.
  [[nodiscard]] static Result<Shares> open(Node node, Store store, Adoption& adoption);

  // Errors: of admit(); conflict where the name is taken; of the store, the pages. After an error there is no share.
  [[nodiscard]] Result<void> create(Share share);
  // New limits, quota-relevant values and members for the share of that name; its GPUs, owner and fail policy stay.
  // Effective for running processes when the call returns. After an error everything is as before.
  [[nodiscard]] Result<void> set(const Share& share) { return set(std::span(&share, 1)); }
  // As above for several shares at once, each of another name. Room is looked for once all of them are as they will be,
  // so that two can swap what they were promised. Stored in one transaction.
  [[nodiscard]] Result<void> set(std::span<const Share> wanted);
  [[nodiscard]] Result<void> pause(const std::string& name);
  [[nodiscard]] Result<void> resume(const std::string& name);
  // No process enters and no memory is given until resume(); work goes on. Like a pause it outlives a reboot.
  [[nodiscard]] Result<void> drain(const std::string& name);
  // The page follows, and the row stays: it has the time by which the next daemon sees the same. A share without pages
  // stays as it is.
  static void set_time_over(LiveShare& live, bool over);
  // Its processes give back what their pools hold unused, once.
  [[nodiscard]] Result<void> reclaim(const std::string& name);
  // A command of that number stays in the share until it ends: nobody removes it meanwhile, though no process may sit
  // in it. Kept over restarts of the daemon where the share goes with its last process. `guest`: whose it is. Errors:
  // not_found; no_capacity; of the store.
  [[nodiscard]] Result<void> attach_run(const std::string& name, std::uint32_t pid,
                                        std::optional<InvitedUser> invited = {});
  // How many of them live, `but` for one. A guest's count while the share lets him in: its owner, who cannot end them,
  // strikes him.
  [[nodiscard]] std::size_t staying(const std::string& name, std::uint32_t but = 0);
  // `by`: the process that asks, 0: none of those that stay. Errors: not_found; conflict while processes sit in it, or
  // somebody stays. Of a share whose pages are damaged that is asked of /proc: the pages would say whatever their
  // tenants like. Some of it at a call, which may then answer that it is not done (failed): the next goes on where it
  // stopped.
  [[nodiscard]] Result<void> remove(const std::string& name, std::uint32_t by = 0);

  // Why nobody can enter or change it, where that is so: its pages cannot be used, or were removed by hand.
  [[nodiscard]] std::optional<Error> trouble_of(const LiveShare& live) const;
  // Null where there is none. Pointers last until the share is removed.
  [[nodiscard]] LiveShare* find(const std::string& name);
  // By name.
  [[nodiscard]] const std::map<std::string, LiveShare>& list() const { return shares_; }
  [[nodiscard]] std::map<std::string, LiveShare>& list() { return shares_; }

  // Whether a share that is made now could be kept. Errors: of Store::check().
  [[nodiscard]] Result<void> check_store() { return store_.check(); }
  // Whether the runtime directory's file system has room for the pages of `more` shares. Errors: no_capacity.
  [[nodiscard]] Result<void> check_room(std::uint64_t more = 1) const;
  // So many shares more are kept room for that only administrators may take: what users make fills nobody's node.
  static constexpr std::uint64_t kKeptForAdministrators = 16;
  // That file system; size_bytes 0: it has no limit of its own. Errors: of statvfs(2).
  struct RuntimeRoom {
    std::uint64_t free_bytes = 0, size_bytes = 0, free_files = 0, files = 0;

    // Whether so little is left that an administrator should act: room for fewer than 64 shares, or for a quarter of
    // what it has where that is less.
    [[nodiscard]] bool is_low() const;
  };
  [[nodiscard]] Result<RuntimeRoom> runtime_room() const;

  [[nodiscard]] const std::vector<Quota>& quotas() const { return quotas_; }
  [[nodiscard]] Result<void> set_quota(const Quota& quota);
  [[nodiscard]] Result<void> remove_quota(Quota::Subject subject, std::uint32_t id);

  // What Store keeps of GPUs; the words are the caller's affair. `policy` empty: as the configuration says, from now
  // on.
  [[nodiscard]] const std::map<std::string, std::string>& gpu_policies() const { return gpu_policies_; }
  [[nodiscard]] Result<void> set_gpu_policy(const std::string& uuid, const std::string& policy);

  [[nodiscard]] Room room_on(const Card& card) const;
  [[nodiscard]] Committed committed_on(const Card& card) const;
  // As their owners asked for them, in a copy that the caller keeps for as long as it has books over it.
  [[nodiscard]] std::vector<Share> rows() const;
  // Of all of them, for the same books.
  [[nodiscard]] std::vector<Excess> past_limits() const;
  [[nodiscard]] const Node& node() const { return node_; }
  // RUNTIME/shares/NAME: what is mounted into a container, and HEADGATE_SHARE_DIR outside one.
  [[nodiscard]] std::string directory(const std::string& name) const { return node_.runtime_dir + "/shares/" + name; }

 private:
  Shares(Node node, Store store) : node_(std::move(node)), store_(std::move(store)) {}

  Result<void> adopt(Share share, Adoption& adoption);
  void look_at_the_rest(Adoption& adoption) const;
  Result<LiveShare*> usable(const std::string& name);
  std::vector<Run> holding(LiveShare& live, std::uint32_t but) const;
  Result<void> command(const std::string& name, ledger::Command command);
  Result<void> discard(LiveShare& live, const std::string& name);
  Result<void> forget_row(LiveShare& live, const std::string& name);
  Result<void> admit_beside_others(const Share& share) const;
  void note_held(LiveShare& live) const;
  void note_lowered(LiveShare& live, const Share& wanted) const;
  Result<void> may_become(const LiveShare& live, const Share& wanted) const;
  Result<void> admit_together(std::span<const Share> wanted) const;
  Result<void> apply_or_undo(std::span<const ledger::ShareGrant> grants, std::span<LiveShare* const> lives);
  Result<std::unique_ptr<Pages>> hold(ledger::SharePages pages, const std::string& name) const;

  Node node_;
  Store store_;
  std::map<std::string, LiveShare> shares_;
  std::vector<Quota> quotas_;
  std::map<std::string, std::string> gpu_policies_;  // by UUID
  std::map<std::string, MappingScan> page_users_;    // looked for, by share
};

}  // namespace headgate::tenancy
