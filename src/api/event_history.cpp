#include "api/event_history.hpp"

#include <string>

#include "api/visible.hpp"
#include "base/whole_number.hpp"
#include "snapshot/json.hpp"
#include "tenancy/share.hpp"

namespace headgate::api {
namespace {

using http::Request;
using http::Response;
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
void add_newer(const observe::EventLog& log, EventQuery query, const node::Caller& caller, Events& events) {
  if (!events.empty()) query.after = events.back().sequence;
  for (auto& event : log.after(query.after)) {
    if (events.size() >= kMaxEvents) return;
    if (query.matches(event) && may_see(event, caller)) events.push_back(std::move(event));
  }
}

}  // namespace

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

void answer_events(const Request& request, const node::Caller& caller, const observe::EventLog& log,
                   tenancy::EventStore* store, http::Reply reply) {
  const auto query = event_query_of(request);
  if (!query) return reply(http::error_response(query.error()));
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
        if (!found) return reply(http::error_response(found.error()));
        add_newer(log, query, caller, *found);
        reply(page_of(*found));
      });
}

}  // namespace headgate::api
