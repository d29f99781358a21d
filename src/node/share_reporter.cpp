#include "node/share_reporter.hpp"

#include <algorithm>
#include <utility>

#include "base/units.hpp"
#include "guest/ledger/slot.hpp"
#include "observe/ledgers.hpp"

namespace headgate::node {

const snapshot::Share* find_in(const snapshot::Snapshot& snapshot, const std::string& name,
                               const tenancy::LiveShare& live) {
  const auto at = std::ranges::find(snapshot.shares, name, &snapshot::Share::name);
  const bool former =
      at != snapshot.shares.end() && live.pages != nullptr && at->generation != live.pages->policy().generation;
  return at == snapshot.shares.end() || former ? nullptr : &*at;
}

ShareReporter::ShareReporter(ManagedShares& managed) : managed_(managed) {
  // Of a share made now all is news; of an adopted one only what is added from now on.
  managed.watch(
      {.made = [this](const std::string& name) { told_[name] = {.counts_refusals = true, .given_up_bytes = 0}; },
       .gone = [this](const std::string& name) { told_.erase(name); },
       .changed = {}});
}

void ShareReporter::look(const snapshot::Snapshot& latest) {
  for (const auto& [name, live] : managed_.shares.list()) {
    const snapshot::Share* const seen = find_in(latest, name, live);
    if (seen == nullptr) continue;
    tell_refusals(name, live, *seen);
    tell_given_up(name, live, !latest.node.nvml_released);
    tell_waiting(live, *seen);
    tell_frozen(live, *seen);
    tell_idle(live, *seen);
  }
  tell_room();
}

// `seen` may be older than the last report.
void ShareReporter::tell_refusals(const std::string& name, const tenancy::LiveShare& live,
                                  const snapshot::Share& seen) {
  Told& told = told_[name];
  const bool adopted = !std::exchange(told.counts_refusals, true);
  for (const auto& device : seen.devices) {
    // What an adopted share was refused before is not news.
    auto& reported = told.refused.try_emplace(device.uuid, adopted ? device.refusals : 0).first->second;
    if (device.refusals <= reported) continue;
    const std::uint64_t times = device.refusals - std::exchange(reported, device.refusals);
    const auto& last = device.last_refusal;
    const std::string asked = last ? bytes_text(last->asked_bytes) : "memory";
    const std::string where = seen.devices.size() > 1 ? " on " + device.uuid.substr(0, 12) : "";
    const std::string limit = last && last->limit_bytes ? ", limit " + bytes_text(*last->limit_bytes) + ", " +
                                                              bytes_text(last->used_bytes) + " in use"
                                                        : "";
    const std::string reason = last ? last->reason : "limit";
    const char* why = reason == "device_full" ? ": the card was full" : reason == "policy" ? ": it is drained" : "";
    managed_.events.add({.kind = "memory.refused",
                         .severity = "warn",
                         .share = name,
                         .uuid = device.uuid,
                         .uid = live.share.owner_uid,
                         .owner_uid = live.share.owner_uid,
                         .text = name + " asked " + asked + where + limit + ": refused" + why +
                                 (times > 1 ? ", " + std::to_string(times) + " times" : "")});
  }
}

void ShareReporter::look_for_refusals(const std::string& name) {
  const tenancy::LiveShare* const live = managed_.shares.find(name);
  if (live == nullptr || live->pages == nullptr || live->distrusted()) return;
  const tenancy::SigbusScope survives;
  tell_refusals(name, *live, observe::read_ledger(live->pages->policy(), live->pages->usage()).share);
}

// Memory of the dead was taken off the account but not seen freed: the card may have less than was committed of it.
void ShareReporter::tell_given_up(const std::string& name, const tenancy::LiveShare& live, bool driver_seen) {
  if (live.pages == nullptr || live.distrusted()) return;
  const std::uint64_t bytes = live.pages->usage().teardowns_given_up.load(std::memory_order_relaxed);
  const std::uint64_t before = std::exchange(told_[name].given_up_bytes, bytes).value_or(bytes);
  // A reading without the driver's library has seen nothing.
  if (bytes > before && driver_seen)
    managed_.tell("memory.given_up", "warn", name, live.share.owner_uid,
                  bytes_text(bytes - before) + " of ended processes of " + name +
                      " are no longer charged to it after " + duration_text(ledger::kTeardownNs) +
                      ", although the driver was not seen to free them: they may still occupy the GPU");
}

void ShareReporter::tell_waiting(const tenancy::LiveShare& live, const snapshot::Share& seen) {
  std::uint64_t waiting_ns = 0;
  for (const auto& device : seen.devices) waiting_ns = std::max(waiting_ns, device.waiting_ns);
  const bool waits = waiting_ns != 0 && !seen.state.starts_with("paused");
  if (!std::exchange(told_[seen.name].waiting, waits) && waits)
    managed_.tell("compute.waiting", "warn", seen.name, live.share.owner_uid,
                  "a launch of " + seen.name + " has been waiting for the GPU for " + duration_text(waiting_ns));
}

void ShareReporter::tell_frozen(const tenancy::LiveShare& live, const snapshot::Share& seen) {
  const bool frozen = seen.state == "frozen";
  auto& told_at = told_[seen.name].frozen_at;
  // They may have come back and gone again between two looks: the count of thaws shows it.
  if (told_at && (!frozen || seen.thaws != *told_at)) {
    told_at.reset();
    if (seen.processes > 0)
      managed_.tell("share.thawed", "info", seen.name, live.share.owner_uid,
                    "the programs of " + seen.name + " are at work again");
  }
  if (!frozen || told_at) return;
  told_at = seen.thaws;
  std::uint64_t bytes = 0;
  for (const auto& device : seen.devices) bytes += device.memory_frozen_bytes;
  managed_.tell(
      "share.frozen", "info", seen.name, live.share.owner_uid,
      "the programs of " + seen.name + " are idle: " + bytes_text(bytes) + " moved from its GPUs to host memory");
}

void ShareReporter::tell_idle(const tenancy::LiveShare& live, const snapshot::Share& seen) {
  const bool idle = live.share.idle_notice &&
                    seen.idle_ns / 1'000'000'000 >= static_cast<std::uint64_t>(live.share.idle_notice->count());
  if (!std::exchange(told_[seen.name].idle, idle) && idle)
    managed_.tell("share.idle", "info", seen.name, live.share.owner_uid,
                  "the share " + seen.name + " has used no GPU for " + duration_text(seen.idle_ns));
}

void ShareReporter::take_trouble(const std::string& name, const std::string& problem) {
  const bool broken = !problem.empty();
  if (std::exchange(told_[name].broken, broken) == broken) return;
  if (broken) managed_.tell("share.broken", "error", name, 0, problem);
  else managed_.tell("share.adopted", "info", name, 0, "the share " + name + " has its pages again and continues");
}

// Warns before it is full, since then no share can be made.
void ShareReporter::tell_room() {
  const auto room = managed_.shares.runtime().room();
  if (!room || std::exchange(told_low_room_, room->is_low()) == room->is_low()) return;
  const std::string& directory = managed_.options.runtime_dir;
  const std::string left = bytes_text(room->free_bytes) + " and " + std::to_string(room->free_files) +
                           " files are left in the file system of " + directory;
  if (room->is_low())
    managed_.events.add({.kind = "runtime.low",
                         .severity = "warn",
                         .text = left + ", where shares' pages lie: without room no share can be made (du -a " +
                                 directory + " says what fills it)"});
  else managed_.events.add({.kind = "runtime.enough", .severity = "info", .text = left + ": enough again"});
}

// Returns 0 if one of its GPUs has never answered: what the share holds there may then be true.
std::uint64_t PageDamage::largest_card_of(const tenancy::Share& share) const {
  std::uint64_t largest = 0;
  for (const auto& device : share.devices) {
    const auto card = card_bytes_.find(device.uuid);
    if (card == card_bytes_.end()) return 0;
    largest = std::max(largest, card->second);
  }
  return largest;
}

// Tenants can write anything into the usage page, but a damaged one spoils only their share's account. It is not used
// any more.
void PageDamage::look(const std::string& name, tenancy::LiveShare& live, std::uint64_t now_ns) {
  tenancy::Pages& pages = *live.pages;
  const std::uint64_t grown = pages.cut_growth();
  if (!live.damage.empty()) return;
  std::string what =
      checks_[name].look(pages.policy(), pages.usage(), largest_card_of(live.share), static_cast<std::int64_t>(now_ns));
  if (what.empty()) what = live.accusation;
  if (grown > 0) what = "had grown to " + bytes_text(grown) + " and was truncated";
  if (pages.truncated()) what = "was shortened";
  if (!what.empty()) tell(name, live, what);
}

void PageDamage::tell(const std::string& name, tenancy::LiveShare& live, const std::string& what) {
  std::string whose;
  std::uint32_t pid = 0, count = 0;
  if (managed_.tenants != nullptr) {
    managed_.tenants->each([&](const tenancy::TenantProcess& tenant) {
      if (tenant.share != name) return;
      pid = tenant.process.pid;
      if (++count <= 8)
        whose += (whose.empty() ? "" : ", ") + std::to_string(pid) + " (" + tenant.process.command + ")";
    });
  }
  if (count > 8) whose += " and " + std::to_string(count - 8) + " more";
  live.damage = "the usage page of the share " + name + " " + what +
                ": no limiter does that, so its figures cannot be trusted" +
                (whose.empty() ? "" : "; in it: process " + whose);
  managed_.events.add({.kind = "share.damaged",
                       .severity = "error",
                       .share = name,
                       .pid = count == 1 ? pid : 0,
                       .uid = live.share.owner_uid,
                       .owner_uid = live.share.owner_uid,
                       .text = live.damage + "; end them, then remove and create the share again"});
}

}  // namespace headgate::node
