// What becomes of shares as time passes: their end, and what their owners are told of.
#include <algorithm>
#include <utility>

#include "base/saturated.hpp"
#include "base/units.hpp"
#include "base/user_name.hpp"
#include "guest/ledger/slot.hpp"
#include "node/node.hpp"
#include "observe/ledgers.hpp"

namespace headgate::node {

// What was refused since it was last told. `seen` may be older than that.
void Node::tell_refusals(const std::string& name, const tenancy::LiveShare& live, const snapshot::Share& seen) {
  std::uint64_t refusals = 0;
  for (const auto& device : seen.devices) refusals = saturated(refusals, device.refusals);
  // What a share that was adopted had refused before is not news.
  auto& told = refusals_.try_emplace(name, refusals).first->second;
  if (refusals <= told) return;
  const std::uint64_t times = refusals - std::exchange(told, refusals);
  const auto with = std::ranges::find_if(seen.devices, [](const auto& d) { return d.last_refusal.has_value(); });
  const std::string asked = with == seen.devices.end() ? "memory" : bytes_text(with->last_refusal->asked_bytes);
  const std::string limit = with == seen.devices.end() || !with->memory_limit_bytes
                                ? ""
                                : ", limit " + bytes_text(*with->memory_limit_bytes) + ", " +
                                      bytes_text(with->last_refusal->used_bytes) + " in use";
  const std::string reason = with == seen.devices.end() ? "limit" : with->last_refusal->reason;
  const char* why = reason == "device_full" ? ": the card was full" : reason == "policy" ? ": it is drained" : "";
  tell("memory.refused", "warn", name, live.share.owner_uid,
       name + " asked " + asked + limit + ": refused" + why +
           (times > 1 ? ", " + std::to_string(times) + " times" : ""));
}

// What the dead had is the share's no longer, and nobody has seen it freed: the card may have less than was sold of it.
void Node::tell_given_up(const std::string& name, const tenancy::LiveShare& live) {
  if (live.pages == nullptr || live.distrusted()) return;
  const std::uint64_t bytes = live.pages->usage().teardowns_given_up.load(std::memory_order_relaxed);
  auto& told = given_up_.try_emplace(name, bytes).first->second;
  if (bytes > told)
    tell("memory.given_up", "warn", name, live.share.owner_uid,
         bytes_text(bytes - told) + " of ended processes of " + name + " are off its account after " +
             duration_text(ledger::kTeardownNs) +
             ", and the driver was not seen to free them: they may hold the card yet");
  told = bytes;
}

// A program that ends on its refusal takes the ledger with it sooner than anybody looks.
Result<void> Node::remove_pages(const std::string& name, std::uint32_t by) {
  if (const tenancy::LiveShare* const live = shares_.find(name);
      live != nullptr && live->pages != nullptr && !live->distrusted()) {
    const tenancy::TruncationScope survives;
    tell_refusals(name, *live, observe::read_ledger(live->pages->policy(), live->pages->usage()).share);
  }
  return shares_.remove(name, by);
}

void Node::keep_time(const snapshot::Snapshot& latest, std::int64_t now_unix_s) {
  std::vector<std::string> over;
  for (const auto& [name, live] : shares_.list()) {
    const auto seen = std::ranges::find(latest.shares, name, &snapshot::Share::name);
    if (tenancy::has_ended(live.share, now_unix_s)) over.push_back(name);
    else take_back_expiry(name, live);
    if (seen == latest.shares.end()) continue;
    if (live.share.until_empty) {
      // Its run removes it; this is for runs that were killed, before or after they brought a process in. While one waits, its program
      // may have no process in the share for as long as it likes.
      constexpr std::int64_t kTimeToEnter_s = 60;
      if (seen->processes > 0) entered_.insert(name);
      else if ((entered_.contains(name) || now_unix_s - live.share.created_at_s > kTimeToEnter_s) &&
               shares_.staying(name) == 0)
        over.push_back(name);
    }

    tell_refusals(name, live, *seen);
    tell_given_up(name, live);

    std::uint64_t waiting_ns = 0;
    for (const auto& device : seen->devices) waiting_ns = std::max(waiting_ns, device.waiting_ns);
    if (waiting_ns == 0 || seen->state == "paused") told_waiting_.erase(name);
    else if (told_waiting_.insert(name).second)
      tell("compute.waiting", "warn", name, live.share.owner_uid,
           "a launch of " + name + " has been waiting for the GPU for " + duration_text(waiting_ns));

    const bool frozen = seen->state == "frozen";
    // Between two looks they may have come back and gone again: the count of returns tells.
    const auto told_at = told_frozen_.find(name);
    if (told_at != told_frozen_.end() && (!frozen || seen->thaws != told_at->second)) {
      told_frozen_.erase(told_at);
      if (seen->processes > 0)
        tell("share.thawed", "info", name, live.share.owner_uid, "the programs of " + name + " are at work again");
    }
    if (frozen && told_frozen_.emplace(name, seen->thaws).second) {
      std::uint64_t bytes = 0;
      for (const auto& device : seen->devices) bytes += device.memory_frozen_bytes;
      tell("share.frozen", "info", name, live.share.owner_uid,
           "the programs of " + name + " are idle: " + bytes_text(bytes) + " went from its GPUs to the host");
    }

    const bool idle = live.share.idle_notice &&
                      seen->idle_ns / 1'000'000'000 >= static_cast<std::uint64_t>(live.share.idle_notice->count());
    if (!idle) told_idle_.erase(name);
    else if (told_idle_.insert(name).second)
      tell("share.idle", "info", name, live.share.owner_uid,
           "the share " + name + " has used no GPU for " + duration_text(seen->idle_ns));
  }
  // Who still uses a damaged page is looked for in all of /proc: for one of them at a time.
  const auto is_costly = [&](const std::string& name) {
    const tenancy::LiveShare* live = shares_.find(name);
    return live != nullptr && (live->distrusted() || live->broken.has_value());
  };
  std::string turn;
  for (const std::string& name : over) {
    if (is_costly(name) && (turn.empty() || (turn <= last_sought_ && name > last_sought_))) turn = name;
  }
  last_sought_ = turn;
  for (const std::string& name : over) {
    const tenancy::LiveShare* const live = shares_.find(name);
    if (live == nullptr) continue;  // over for two reasons
    const std::uint32_t owner_uid = live->share.owner_uid;
    // With programs in it, it stays: trying would be two writes to the disk at each look.
    const bool used =
        (live->pages != nullptr && ledger::live_slots(live->pages->usage()) > 0) || shares_.staying(name) > 0;
    if (is_costly(name) ? name == turn : !used) {
      if (auto removed = remove_pages(name)) {
        forget(name), tell("share.ended", "info", name, 0, "the share " + name + " came to its end", owner_uid);
        continue;
      }
    }
    // Nobody's work is cut off by a clock alone.
    if (tenancy::has_ended(live->share, now_unix_s)) expire(name, *live);
  }
  serve_queue();
}

void Node::expire(const std::string& name, const tenancy::LiveShare& live) {
  if (live.pages == nullptr) return;
  const bool news = expired_.insert(name).second && !ledger::is_draining(live.pages->policy());
  // Who has paused it wants it to stand still: the door is shut by the time itself (tenant_doors.cpp).
  if (!live.paused() && !ledger::is_draining(live.pages->policy())) (void)shares_.drain_expired(name);
  if (!news) return;  // it was told before a restart
  const std::uint32_t inside = ledger::live_slots(live.pages->usage());
  tell("share.expired", "warn", name, live.share.owner_uid,
       "the time of the share " + name + " of " + user_name(live.share.owner_uid) +
           " is over: nobody enters it any more, it is given no more memory, and it ends with the last of its " +
           std::to_string(inside) + (inside == 1 ? " program" : " programs"));
}

// Its time was put off.
void Node::take_back_expiry(const std::string& name, const tenancy::LiveShare& live) {
  if (expired_.erase(name) == 0 || live.pages == nullptr || !ledger::is_draining(live.pages->policy())) return;
  (void)shares_.resume(name);
}

}  // namespace headgate::node
