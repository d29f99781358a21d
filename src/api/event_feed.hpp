// GET /v1/events: a page, from the in-memory log if it covers the request, else from the store; with follow=1 a stream.
// A stream has first the events that the log has dropped, from the store; then those in the log, as fast as the
// connection accepts them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "http/event_stream.hpp"
#include "http/message.hpp"
#include "http/router.hpp"
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

// Supplies one follower. Single-threaded. The log must outlive it.
class EventFeed {
 public:
  // `from_now`: ignore query.after and query.since_unix_ns and start with the next event. `store`: nullptr if events
  // are kept in memory only. `wake`: called on the store's thread when next() has more events.
  EventFeed(const observe::EventLog& log, tenancy::EventStore* store, node::Caller caller, tenancy::EventQuery query,
            bool from_now, std::function<void()> wake);

  // Returns the next events that match the query and that the caller may see; empty if there are none at present. Gaps
  // are reported (events.missed) even if the caller could not have seen every missed event.
  [[nodiscard]] std::vector<http::Event> next();
  // Returns true if no event can come before `wake` is called.
  [[nodiscard]] bool waits_for_store() const { return former_ != nullptr; }

 private:
  struct Former;

  [[nodiscard]] std::vector<snapshot::Event> some();
  void ask_former();

  const observe::EventLog& log_;
  tenancy::EventStore* const store_;
  const node::Caller caller_;
  const tenancy::EventQuery query_;
  const std::function<void()> wake_;
  std::shared_ptr<Former> former_;  // null: all remaining events are in the log
  observe::EventCursor cursor_;
};

// The followers' streams, and how many one user may have. For the loop's thread only.
class EventFollowers {
 public:
  // Answers with a stream of the events that the request asks for. Errors: 429 if the user has `most_per_user` streams;
  // usage.
  [[nodiscard]] http::Response add(const http::Request& request, const node::Caller& caller, observe::EventLog& events,
                                   tenancy::EventStore* history, std::size_t most_per_user);
  // Sends each its new events, as many as its connection can take.
  void wake();
  // Ends all streams.
  void finish();

 private:
  struct Follower {
    std::shared_ptr<http::EventStream> stream;
    std::uint32_t uid = 0;
  };
  void forget_gone();

  std::list<Follower> followers_;
};

}  // namespace headgate::api
