#include "api/event_feed.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "api/visible.hpp"
#include "snapshot/json.hpp"

namespace headgate::api {
namespace {

constexpr std::size_t kSome = 64;   // small, so that a slow reader buffers little and its events stay current
constexpr std::size_t kPage = 256;  // events per read of the store, to open each file once

}  // namespace

// State of paging through the store.
struct EventFeed::Former {
  std::uint64_t after = 0;
  bool asked = false;
  std::mutex mutex;  // guards `page`, which the store's thread fills
  std::optional<std::vector<snapshot::Event>> page;
};

EventFeed::EventFeed(const observe::EventLog& log, tenancy::EventStore* store, node::Caller caller,
                     tenancy::EventQuery query, bool from_now, std::function<void()> wake)
    : log_(log),
      store_(store),
      caller_(std::move(caller)),
      query_(std::move(query)),
      wake_(std::move(wake)),
      cursor_(log, from_now ? std::nullopt : std::optional(query_.after)) {
  // With after=0, everything the log still holds is meant, unless a start time asks for older events.
  const bool asks_for_former = query_.after > 0 ? query_.after < log.given_up() : query_.since_unix_ns > 0;
  if (store_ == nullptr || from_now || !asks_for_former) return;
  former_ = std::make_shared<Former>();
  former_->after = query_.after;
}

std::vector<http::Event> EventFeed::next() {
  std::vector<http::Event> told;
  while (told.empty()) {
    const auto events = some();
    if (events.empty()) break;
    for (const auto& event : events) {
      const bool missed = event.kind == observe::EventCursor::kMissed;
      if (!missed && (!query_.matches(event) || !may_see(event, caller_))) continue;
      told.push_back({.name = event.kind, .data = snapshot::to_json(event), .id = std::to_string(event.sequence)});
    }
  }
  return told;
}

// A full page means that the store may have more. If the store cannot be read, its events are reported as missed.
std::vector<snapshot::Event> EventFeed::some() {
  if (!former_) return cursor_.next(log_, kSome);
  if (!former_->asked) ask_former();
  std::vector<snapshot::Event> page;
  {
    const std::scoped_lock lock(former_->mutex);
    if (!former_->page) return {};
    page = *std::exchange(former_->page, std::nullopt);
  }
  former_->asked = false;
  if (!page.empty()) former_->after = page.back().sequence;
  const bool last = page.size() < kPage;
  if (last) former_.reset();
  auto told = cursor_.pass(log_, std::move(page));
  return told.empty() && last ? cursor_.next(log_, kSome) : told;
}

void EventFeed::ask_former() {
  former_->asked = true;
  const auto all = [](const snapshot::Event&) { return true; };  // unfiltered, so that the cursor notices gaps
  // A weak pointer: when the stream ends, the feed goes away and the pending read is dropped.
  const std::weak_ptr<Former> asked = former_;
  store_->read({.after = former_->after, .since_unix_ns = query_.since_unix_ns}, kPage, all,
               {.uid = caller_.uid, .waits = [asked] { return !asked.expired(); }},
               [asked, wake = wake_](Result<std::vector<snapshot::Event>> found) {
                 const auto former = asked.lock();
                 if (former == nullptr) return;
                 {
                   const std::scoped_lock lock(former->mutex);
                   former->page = std::move(found).value_or(std::vector<snapshot::Event>{});
                 }
                 wake();
               });
}

}  // namespace headgate::api
