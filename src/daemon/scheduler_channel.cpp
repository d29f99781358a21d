#include "daemon/scheduler_channel.hpp"

#include "base/joined.hpp"
#include "base/units.hpp"
#include "guest/ledger/oom_wait.hpp"
#include "node/share_request.hpp"

namespace headgate::daemon {
namespace {

snapshot::Event shortage_event(const node::MemoryShortage& shortage, const tenancy::Share& share) {
  // Count contexts and code too: by the allocations alone there would seem to be room.
  const std::string used = bytes_text(shortage.used_bytes) +
                           (shortage.limit_bytes ? " of its " + bytes_text(*shortage.limit_bytes) : "") +
                           " are in use, contexts and code among them";
  return {.kind = share.oom_wait ? "memory.waiting" : "memory.short",
          .severity = "warn",
          .share = share.name,
          .uuid = shortage.uuid,
          .uid = share.owner_uid,
          .owner_uid = share.owner_uid,
          .text = share.name + (share.oom_wait ? " waits for " : " lacks ") + bytes_text(shortage.bytes) +
                  (shortage.of_card ? ", which the card does not have" : "; " + used) +
                  (shortage.asked.empty()
                       ? ""
                       : "; idle shares are asked to trim their pools: " + joined(shortage.asked, ", "))};
}

}  // namespace

Result<void> SchedulerChannel::open(Context& context) {
  bounds_.answer = TRY(node::parse_duration("node.admit_timeout", context.config["node.admit_timeout"].value));
  channel_.emplace(context.loop, channel::ChannelOptions{.limits = api::Scheduler::limits(bounds_),
                                                         .authorise = api::administrators(context.access)});
  scheduler_.emplace(*channel_, context.events, bounds_.answer);
  return {};
}

void MemoryRelief::look(const std::string& name) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  for (const node::MemoryShortage& shortage : pressure_.look(node_.shares(), name, *observer_.latest(), now)) {
    const tenancy::LiveShare* live = node_.shares().find(name);
    if (live == nullptr) return;
    if (shortage.news) events_.add(shortage_event(shortage, live->share));
    if (!live->share.oom_wait) continue;
    scheduler_.scheduler()->tell_of_want(shortage, live->share, *live->share.oom_wait, [this, name] {
      tenancy::LiveShare* still = node_.shares().find(name);
      if (still != nullptr && still->pages != nullptr)
        ledger::deny_waiters(still->pages->policy(), still->pages->usage());
    });
  }
}

void MemoryRelief::look_at_all() {
  for (const auto& [name, live] : node_.shares().list()) look(name);
}

}  // namespace headgate::daemon
