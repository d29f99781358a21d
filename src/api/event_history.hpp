// GET /v1/events without follow=1: answers from the in-memory log if it covers the request, else from the store.
#pragma once

#include "base/result.hpp"
#include "http/reply.hpp"
#include "node/caller.hpp"
#include "observe/event_log.hpp"
#include "tenancy/event_store.hpp"

namespace headgate::api {

// Parses after, since_unix_ns, share and kind. Errors: usage if a number is malformed.
[[nodiscard]] Result<tenancy::EventQuery> event_query_of(const http::Request& request);

// The query of a follower. The header Last-Event-ID overrides `after`, because an EventSource that reconnects sends its
// first URL again.
struct Following {
  tenancy::EventQuery query;
  bool from_now = false;  // no start given: only events from now on
};
[[nodiscard]] Result<Following> following_of(const http::Request& request);

// Events per page, oldest first; to read on, ask again with after= the last sequence number.
inline constexpr std::size_t kMaxEvents = 4096;

// Replies at once or on the store's thread; 400 if a number is malformed. `store` is nullptr if events are kept in
// memory only. The log must outlive the store.
void answer_events(const http::Request& request, const node::Caller& caller, const observe::EventLog& log,
                   tenancy::EventStore* store, http::Reply reply);

}  // namespace headgate::api
