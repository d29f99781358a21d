// What happens to shares as time passes: their end, and what their owners are told.
#include <algorithm>
#include <utility>

#include "base/units.hpp"
#include "base/user_name.hpp"
#include "guest/ledger/slot.hpp"
#include "node/node.hpp"
#include "observe/ledgers.hpp"

namespace headgate::node {

// Reports refusals since the last report. `seen` may be older than that.
void Node::tell_refusals(const std::string& name, const tenancy::LiveShare& live, const snapshot::Share& seen) {
  const auto [at, adopted] = refusals_.try_emplace(name);
  for (const auto& device : seen.devices) {
    // What an adopted share was refused before is not news.
    auto& told = at->second.try_emplace(device.uuid, adopted ? device.refusals : 0).first->second;
    if (device.refusals <= told) continue;
    const std::uint64_t times = device.refusals - std::exchange(told, device.refusals);
    const auto& last = device.last_refusal;
    const std::string asked = last ? bytes_text(last->asked_bytes) : "memory";
    const std::string where = seen.devices.size() > 1 ? " on " + device.uuid.substr(0, 12) : "";
    const std::string limit = last && last->limit_bytes ? ", limit " + bytes_text(*last->limit_bytes) + ", " +
                                                              bytes_text(last->used_bytes) + " in use"
                                                        : "";
    const std::string reason = last ? last->reason : "limit";
    const char* why = reason == "device_full" ? ": the card was full" : reason == "policy" ? ": it is drained" : "";
    events_->add({.kind = "memory.refused",
                  .severity = "warn",
                  .share = name,
                  .uuid = device.uuid,
                  .uid = live.share.owner_uid,
                  .owner_uid = live.share.owner_uid,
                  .text = name + " asked " + asked + where + limit + ": refused" + why +
                          (times > 1 ? ", " + std::to_string(times) + " times" : "")});
  }
}

// Memory of the dead was taken off the account but not seen freed: the card may have less than was committed of it.
void Node::tell_given_up(const std::string& name, const tenancy::LiveShare& live, bool driver_seen) {
  if (live.pages == nullptr || live.distrusted()) return;
  const std::uint64_t bytes = live.pages->usage().teardowns_given_up.load(std::memory_order_relaxed);
  auto& told = given_up_.try_emplace(name, bytes).first->second;
  // A reading without the driver's library has seen nothing.
  if (bytes > told && driver_seen)
    tell("memory.given_up", "warn", name, live.share.owner_uid,
         bytes_text(bytes - told) + " of ended processes of " + name + " are off its account after " +
             duration_text(ledger::kTeardownNs) +
             ", and the driver was not seen to free them: they may hold the card yet");
  told = bytes;
}

void Node::look_for_refusals(const std::string& name) {
  const tenancy::LiveShare* const live = shares_.find(name);
  if (live == nullptr || live->pages == nullptr || live->distrusted()) return;
  const tenancy::SigbusScope survives;
  tell_refusals(name, *live, observe::read_ledger(live->pages->policy(), live->pages->usage()).share);
}

// A program that ends on its refusal removes the ledger before the refusal is seen.
Result<void> Node::remove_pages(const std::string& name, std::uint32_t by) {
  look_for_refusals(name);
  return shares_.remove(name, by);
}

void Node::tell_waiting(const tenancy::LiveShare& live, const snapshot::Share& seen) {
  std::uint64_t waiting_ns = 0;
  for (const auto& device : seen.devices) waiting_ns = std::max(waiting_ns, device.waiting_ns);
  if (waiting_ns == 0 || seen.state.starts_with("paused")) told_waiting_.erase(seen.name);
  else if (told_waiting_.insert(seen.name).second)
    tell("compute.waiting", "warn", seen.name, live.share.owner_uid,
         "a launch of " + seen.name + " has been waiting for the GPU for " + duration_text(waiting_ns));
}

void Node::tell_frozen(const tenancy::LiveShare& live, const snapshot::Share& seen) {
  const bool frozen = seen.state == "frozen";
  // They may have come back and gone again between two looks: the count of thaws shows it.
  const auto told_at = told_frozen_.find(seen.name);
  if (told_at != told_frozen_.end() && (!frozen || seen.thaws != told_at->second)) {
    told_frozen_.erase(told_at);
    if (seen.processes > 0)
      tell("share.thawed", "info", seen.name, live.share.owner_uid,
           "the programs of " + seen.name + " are at work again");
  }
  if (!frozen || !told_frozen_.emplace(seen.name, seen.thaws).second) return;
  std::uint64_t bytes = 0;
  for (const auto& device : seen.devices) bytes += device.memory_frozen_bytes;
  tell("share.frozen", "info", seen.name, live.share.owner_uid,
       "the programs of " + seen.name + " are idle: " + bytes_text(bytes) + " went from its GPUs to the host");
}

void Node::tell_idle(const tenancy::LiveShare& live, const snapshot::Share& seen) {
  const bool idle = live.share.idle_notice &&
                    seen.idle_ns / 1'000'000'000 >= static_cast<std::uint64_t>(live.share.idle_notice->count());
  if (!idle) told_idle_.erase(seen.name);
  else if (told_idle_.insert(seen.name).second)
    tell("share.idle", "info", seen.name, live.share.owner_uid,
         "the share " + seen.name + " has used no GPU for " + duration_text(seen.idle_ns));
}

// Warns before it is full, since then no share can be made.
void Node::tell_room() {
  const auto room = shares_.runtime_room();
  if (!room || std::exchange(told_low_room_, room->is_low()) == room->is_low()) return;
  const std::string left = bytes_text(room->free_bytes) + " and " + std::to_string(room->free_files) +
                           " files are left in the file system of " + options_.runtime_dir;
  if (room->is_low())
    events_->add({.kind = "runtime.low",
                  .severity = "warn",
                  .text = left + ", where shares' pages lie: without room no share can be made (du -a " +
                          options_.runtime_dir + " says what fills it)"});
  else events_->add({.kind = "runtime.enough", .severity = "info", .text = left + ": enough again"});
}

void Node::keep_time(const snapshot::Snapshot& latest, std::int64_t now_unix_s) {
  std::vector<std::string> over;
  for (auto& [name, live] : shares_.list()) {
    const auto at = std::ranges::find(latest.shares, name, &snapshot::Share::name);
    // The snapshot may be older than the share, and show a former one of that name.
    const bool former =
        at != latest.shares.end() && live.pages != nullptr && at->generation != live.pages->policy().generation;
    const snapshot::Share* const seen = at == latest.shares.end() || former ? nullptr : &*at;
    const bool ended = tenancy::has_ended(live.share, now_unix_s);
    if (!ended) tenancy::Shares::set_time_over(live, false);
    if ((seen != nullptr && is_empty_for_good(live, *seen, now_unix_s)) || ended) over.push_back(name);
    if (seen == nullptr) continue;
    tell_refusals(name, live, *seen);
    tell_given_up(name, live, !latest.node.nvml_released);
    tell_waiting(live, *seen);
    tell_frozen(live, *seen);
    tell_idle(live, *seen);
  }
  tell_room();
  end_those(over, now_unix_s);
  serve_queue();
  // Covers all other changes: shares that ended, were adopted at the start, or have usable pages again.
  divide_unattended();
}

// A run removes its share; this is for runs that were killed, before or after they brought a process in. While a run
// waits, its program may have no process in the share for any length of time.
bool Node::is_empty_for_good(const tenancy::LiveShare& live, const snapshot::Share& seen, std::int64_t now_unix_s) {
  constexpr std::int64_t kTimeToEnter_s = 60;
  if (!live.share.until_empty || seen.processes > 0) return false;
  // The page also counts those that came and went between two looks, or under another daemon.
  const bool had_some = live.pages != nullptr && live.pages->usage().slots_seen.load(std::memory_order_relaxed) > 0;
  return (had_some || now_unix_s - live.share.created_at_s > kTimeToEnter_s) && shares_.staying(seen.name) == 0;
}

namespace {

// Finding the processes that use a damaged page takes a search of all of /proc.
bool is_costly_to_end(const tenancy::LiveShare& live) { return live.distrusted() || live.broken.has_value(); }

}  // namespace

// Returns one of those that are costly to end, round robin.
std::string Node::next_costly(const std::vector<std::string>& over) {
  std::string turn;
  for (const std::string& name : over) {
    if (is_costly_to_end(*shares_.find(name)) && (turn.empty() || (turn <= last_sought_ && name > last_sought_)))
      turn = name;
  }
  return turn;
}

void Node::end_those(const std::vector<std::string>& over, std::int64_t now_unix_s) {
  last_sought_ = next_costly(over);
  bool disk_is_busy = false;  // each attempt blocks the loop until the disk answers: leave the others to the next look
  for (const std::string& name : over) {
    tenancy::LiveShare& live = *shares_.find(name);
    const std::uint32_t owner_uid = live.share.owner_uid;
    // With programs in it, it stays: an attempt would cost two writes to the disk at each look.
    const bool used =
        (live.pages != nullptr && ledger::live_slots(live.pages->usage()) > 0) || shares_.staying(name) > 0;
    if (!disk_is_busy && (is_costly_to_end(live) ? name == last_sought_ : !used)) {
      const auto removed = remove_pages(name);
      if (removed) {
        forget(name), tell("share.ended", "info", name, 0, "the share " + name + " came to its end", owner_uid);
        continue;
      }
      disk_is_busy = removed.error().code == ErrorCode::busy;
    }
    // A clock alone cuts off no work.
    if (tenancy::has_ended(live.share, now_unix_s)) expire(name, live);
  }
}

void Node::expire(const std::string& name, tenancy::LiveShare& live) {
  if (live.pages == nullptr || live.time_over) return;
  const bool drained = ledger::is_draining(live.pages->policy());
  tenancy::Shares::set_time_over(live, true);
  if (changed_) changed_(name);
  if (drained) return;  // its owner has already said all of it
  const std::uint32_t inside = ledger::live_slots(live.pages->usage());
  tell("share.expired", "warn", name, live.share.owner_uid,
       "the time of the share " + name + " of " + user_name(live.share.owner_uid) +
           " is over: no process may join, it gets no more memory, and it ends with " +
           (inside == 0 ? std::string("the headgate run that is in it")
                        : "the last of its " + std::to_string(inside) + (inside == 1 ? " program" : " programs")));
}

}  // namespace headgate::node
