#include "daemon/event_keeper.hpp"

#include <limits>
#include <utility>

#include "base/now.hpp"
#include "daemon/journal.hpp"
#include "node/share_request.hpp"

namespace headgate::daemon {
namespace {

using Time = std::chrono::system_clock::time_point;

constexpr std::chrono::seconds kRetry(1);

// A step of the system clock makes no event old.
Time lease_time() { return Time(std::chrono::seconds(lease_now_s())); }

}  // namespace

Result<std::unique_ptr<EventKeeper>> EventKeeper::start(Context& context) {
  const auto& keep = context.config["events.keep"];
  const auto age = node::parse_duration("events.keep", keep.value);
  if (!age) return fail(ErrorCode::usage, keep.origin + ": " + age.error().message, age.error().hint);
  auto keeper = std::make_unique<EventKeeper>(context.events, context.places.events_file,
                                              tenancy::EventBounds{context.config.number("events.rows"), *age});
  keeper->open();
  return keeper;
}

void EventKeeper::open() {
  auto opened = tenancy::EventStore::open(path_, bounds_, lease_time);
  if (!opened) {
    events_.restore({}, {}, unix_now_ns() / 1'000'000);
    tried_at_ = std::chrono::steady_clock::now();
    return tell_unsaved(opened.error());
  }
  auto former = (*opened)->take_former();
  std::vector<observe::EventLog::Gap> gaps;
  for (const auto& gap : former.gaps) gaps.push_back({gap.after, gap.until});
  events_.restore(std::move(former.events), std::move(gaps), former.last);
  keep(std::move(*opened));
}

tenancy::EventStore* EventKeeper::retry(std::chrono::steady_clock::time_point now) {
  if (store_ != nullptr || now - tried_at_ < kRetry) return nullptr;
  tried_at_ = now;
  // Open it as of the start: the first numbers of this run then follow the former daemons' in the file too.
  const std::uint64_t began_after = events_.began_after();
  auto opened = tenancy::EventStore::open(
      path_, bounds_, [first = true, began = Time(std::chrono::milliseconds(began_after))]() mutable {
        return std::exchange(first, false) ? began : lease_time();
      });
  if (opened && (*opened)->take_former().last > began_after)
    opened = fail(ErrorCode::conflict, path_ + " has events with greater numbers than this daemon's",
                  "the clock was set back; restart headgated");
  if (!opened) {
    if (trouble_ != opened.error().message) tell_unsaved(opened.error());
    return nullptr;
  }
  keep(std::move(*opened));
  // Add the events since then that are still in memory; what was given up there is lost.
  for (const auto& event : events_.after(began_after, std::numeric_limits<std::size_t>::max())) store_->add(event);
  events_.add({.kind = "events.saved", .severity = "info", .text = "events are stored on disk from now on"});
  return store_.get();
}

void EventKeeper::keep(std::unique_ptr<tenancy::EventStore> store) {
  store_ = std::move(store);
  store_->tell_trouble([this](const std::optional<Error>& error, std::uint64_t lost) {
    if (error) return tell_unsaved(*error);
    events_.add({.kind = "events.saved",
                 .severity = "info",
                 .text = "events are written again; " + std::to_string(lost) + " of those before are lost"});
  });
  events_.listen([raw = store_.get()](const snapshot::Event& event) { raw->add(event); });
}

// Any thread, except for `trouble_`, which belongs to the loop until there is a store.
void EventKeeper::tell_unsaved(const Error& error) {
  if (store_ == nullptr) trouble_ = error.message;
  journal(JournalLevel::error, "events are kept in memory only: " + error.message + " (" + error.hint + ")");
  events_.add({.kind = "events.unsaved",
               .severity = "error",
               .text = "events cannot be written, and are kept in memory only: the daemon's log says why"});
}

}  // namespace headgate::daemon
