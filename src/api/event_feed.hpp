// Supplies one follower of events. Events that the in-memory log has dropped come first, from the store; then those in
// the log, as fast as the connection accepts them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "http/event_stream.hpp"
#include "node/caller.hpp"
#include "observe/event_cursor.hpp"
#include "tenancy/event_store.hpp"

namespace headgate::api {

// Single-threaded. The log must outlive it.
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

}  // namespace headgate::api
