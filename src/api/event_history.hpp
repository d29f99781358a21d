// GET /v1/events without follow=1: what happened, from the log in memory where that has all of it, else from the store.
#pragma once

#include "base/result.hpp"
#include "http/reply.hpp"
#include "node/caller.hpp"
#include "observe/event_log.hpp"
#include "tenancy/event_store.hpp"

namespace headgate::api {

// What the request chooses by after, since_unix_ns, share and kind; usage for a number that is none.
[[nodiscard]] Result<tenancy::EventQuery> event_query_of(const http::Request& request);

// The same of who follows: the header Last-Event-ID stands in place of after, as an EventSource that connects again
// repeats its URL.
struct Following {
  tenancy::EventQuery query;
  bool from_now = false;  // nothing says from where: he gets what happens from here on
};
[[nodiscard]] Result<Following> following_of(const http::Request& request);

// A page, oldest first; who wants more asks again with after= the last of it.
inline constexpr std::size_t kMaxEvents = 4096;

// `store`: nullptr where events are kept in memory only. Replies now or from the store's thread; 400 for a number that
// is none. The log must outlive the store.
void answer_events(const http::Request& request, const node::Caller& caller, const observe::EventLog& log,
                   tenancy::EventStore* store, http::Reply reply);

}  // namespace headgate::api
