#include "node/share_expiry.hpp"

#include "base/user_name.hpp"
#include "guest/ledger/slot.hpp"

namespace headgate::node {
namespace {

// Finding the processes that use a damaged page takes a search of all of /proc.
bool is_costly_to_end(const tenancy::LiveShare& live) { return live.distrusted() || live.broken.has_value(); }

}  // namespace

// A run removes its share; this is for runs that were killed, before or after they brought a process in. While a run
// waits, its program may have no process in the share for any length of time.
bool ShareExpiry::is_empty_for_good(const tenancy::LiveShare& live, const snapshot::Share& seen,
                                    std::int64_t now_unix_s) {
  constexpr std::int64_t kTimeToEnter_s = 60;
  if (!live.share.until_empty || seen.processes > 0) return false;
  // The page also counts those that came and went between two looks, or under another daemon.
  const bool had_some = live.pages != nullptr && live.pages->usage().slots_seen.load(std::memory_order_relaxed) > 0;
  return (had_some || now_unix_s - live.share.created_at_s > kTimeToEnter_s) && managed_.shares.staying(seen.name) == 0;
}

// Returns one of those that are costly to end, round robin.
std::string ShareExpiry::next_costly(const std::vector<std::string>& over) {
  std::string turn;
  for (const std::string& name : over) {
    if (is_costly_to_end(*managed_.shares.find(name)) &&
        (turn.empty() || (turn <= last_sought_ && name > last_sought_)))
      turn = name;
  }
  return turn;
}

void ShareExpiry::look(const snapshot::Snapshot& latest, std::int64_t now_unix_s) {
  std::vector<std::string> over;
  for (auto& [name, live] : managed_.shares.list()) {
    const bool ended = tenancy::has_ended(live.share, now_unix_s);
    if (!ended) tenancy::Shares::set_time_over(live, false);
    const snapshot::Share* const seen = live.share.until_empty ? find_in(latest, name, live) : nullptr;
    if ((seen != nullptr && is_empty_for_good(live, *seen, now_unix_s)) || ended) over.push_back(name);
  }
  last_sought_ = next_costly(over);
  bool disk_is_busy = false;  // each attempt blocks the loop until the disk answers: leave the others to the next look
  for (const std::string& name : over) {
    tenancy::LiveShare& live = *managed_.shares.find(name);
    const std::uint32_t owner_uid = live.share.owner_uid;
    // With programs in it, it stays: an attempt would cost two writes to the disk at each look.
    const bool used =
        (live.pages != nullptr && ledger::live_slots(live.pages->usage()) > 0) || managed_.shares.staying(name) > 0;
    if (!disk_is_busy && (is_costly_to_end(live) ? name == last_sought_ : !used)) {
      reporter_.look_for_refusals(name);
      const auto removed = managed_.shares.remove(name);
      if (removed) {
        managed_.forget(name);
        managed_.tell("share.ended", "info", name, 0, "the share " + name + " has ended and was removed", owner_uid);
        continue;
      }
      disk_is_busy = removed.error().code == ErrorCode::busy;
    }
    // A clock alone cuts off no work.
    if (tenancy::has_ended(live.share, now_unix_s)) expire(name, live);
  }
}

void ShareExpiry::expire(const std::string& name, tenancy::LiveShare& live) {
  if (live.pages == nullptr || live.time_over) return;
  const bool drained = ledger::is_draining(live.pages->policy());
  tenancy::Shares::set_time_over(live, true);
  managed_.changed(name);
  if (drained) return;  // its owner has already said all of it
  const std::uint32_t inside = ledger::live_slots(live.pages->usage());
  managed_.tell(
      "share.expired", "warn", name, live.share.owner_uid,
      "the share " + name + " of " + user_name(live.share.owner_uid) +
          " has expired: no process may join, it gets no more memory, and it ends with " +
          (inside == 0 ? std::string("the headgate run that is in it")
                       : "the last of its " + std::to_string(inside) + (inside == 1 ? " program" : " programs")));
}

}  // namespace headgate::node
