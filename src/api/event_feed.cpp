#include "api/event_feed.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "api/access.hpp"
#include "base/whole_number.hpp"
#include "snapshot/json.hpp"
#include "tenancy/share.hpp"

namespace headgate::api {
namespace {

constexpr std::size_t kSome = 64;   // small, so that a slow reader buffers little and its events stay current
constexpr std::size_t kPage = 256;  // events per read of the store, to open each file once

using tenancy::EventQuery;
using Events = std::vector<snapshot::Event>;

Result<std::uint64_t> number_from(const char* name, const std::string* text) {
  if (text == nullptr) return 0;
  if (const auto value = whole_number(*text)) return *value;
  return fail(ErrorCode::usage, std::string(name) + "='" + tenancy::escape_untrusted(*text) + "' is no number",
              "accepted: a whole number from 0");
}

Result<std::uint64_t> number_at(const Request& request, const char* name) {
  return number_from(name, request.query_value(name));
}

std::string text_at(const Request& request, const char* name) {
  const std::string* text = request.query_value(name);
  return text == nullptr ? std::string() : *text;
}

bool chooses(const EventQuery& query) {
  return query.since_unix_ns != 0 || !query.share.empty() || !query.kind.empty();
}

Response page_of(const Events& events) {
  Response response;
  response.body = snapshot::to_json(events) + "\n";
  return response;
}

// Adds the events that are in the log but not yet in the store.
void add_newer(const observe::EventLog& log, EventQuery query, const Caller& caller, Events& events) {
  if (!events.empty()) query.after = events.back().sequence;
  for (auto& event : log.after(query.after)) {
    if (events.size() >= kMaxEvents) return;
    if (query.matches(event) && may_see(event, caller)) events.push_back(std::move(event));
  }
}

}  // namespace

// State of paging through the store.
struct EventFeed::Former {
  std::uint64_t after = 0;
  bool asked = false;
  std::mutex mutex;  // guards `page`, which the store's thread fills
  std::optional<std::vector<snapshot::Event>> page;
};

EventFeed::EventFeed(const observe::EventLog& log, tenancy::EventStore* store, Caller caller, tenancy::EventQuery query,
                     bool from_now, std::function<void()> wake)
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

Response EventFollowers::add(const Request& request, const Caller& caller, observe::EventLog& events,
                             tenancy::EventStore* history, std::size_t most_per_user) {
  forget_gone();
  const auto has = std::ranges::count(followers_, caller.uid, &Follower::uid);
  if (static_cast<std::size_t>(has) >= most_per_user) {
    return error_response(429, "busy", "you follow " + std::to_string(has) + " streams of events already",
                          "close one, or raise node.streams_per_user in the configuration");
  }
  auto following = following_of(request);
  if (!following) return error_response(following.error());
  Response response;
  response.stream = std::make_shared<http::EventStream>();
  const auto feed = std::make_shared<EventFeed>(events, history, caller, std::move(following->query),
                                                following->from_now, [weak = std::weak_ptr(response.stream)] {
                                                  if (const auto stream = weak.lock()) stream->wake();
                                                });
  response.stream->feed_from([feed] { return feed->next(); });
  followers_.push_back({response.stream, caller.uid});
  return response;
}

void EventFollowers::wake() {
  forget_gone();
  for (const auto& follower : followers_) follower.stream->wake();
}

void EventFollowers::finish() {
  for (const auto& follower : followers_) follower.stream->finish();
  followers_.clear();
}

void EventFollowers::forget_gone() {
  std::erase_if(followers_, [](const Follower& follower) { return !follower.stream->open(); });
}

Result<EventQuery> event_query_of(const Request& request) {
  EventQuery query;
  query.after = TRY(number_at(request, "after"));
  query.since_unix_ns = TRY(number_at(request, "since_unix_ns"));
  query.share = text_at(request, "share");
  query.kind = text_at(request, "kind");
  return query;
}

Result<Following> following_of(const Request& request) {
  Following following{TRY(event_query_of(request))};
  const std::string* const last = http::find(request.headers, "Last-Event-ID");
  if (last != nullptr) following.query.after = TRY(number_from("Last-Event-ID", last));
  following.from_now = last == nullptr && request.query_value("after") == nullptr && following.query.since_unix_ns == 0;
  return following;
}

void answer_events(const Request& request, const Caller& caller, const observe::EventLog& log,
                   tenancy::EventStore* store, http::Reply reply) {
  const auto query = event_query_of(request);
  if (!query) return reply(error_response(query.error()));
  // Without a start, the newest events are wanted. Memory may hold less than a page that this caller may see, while the
  // disk holds more. With a start, memory suffices if it still holds everything after it.
  const bool from_start = !chooses(*query) && query->after == 0;
  const bool in_memory = from_start || (!chooses(*query) && query->after >= log.given_up());
  if (store == nullptr || in_memory) {
    Events events;
    add_newer(log, *query, caller, events);
    if (store == nullptr || !from_start || events.size() >= kMaxEvents || log.given_up() == 0)
      return reply(page_of(events));
  }
  tenancy::EventQuery asked = *query;
  asked.newest = from_start;
  store->read(
      asked, kMaxEvents, [caller](const snapshot::Event& event) { return may_see(event, caller); },
      {.uid = caller.uid, .waits = [reply] { return reply.waits(); }},
      [query = *query, caller, &log, reply](Result<Events> found) {
        if (!found) return reply(error_response(found.error()));
        add_newer(log, query, caller, *found);
        reply(page_of(*found));
      });
}

}  // namespace headgate::api
