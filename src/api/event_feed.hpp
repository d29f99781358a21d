// What one follower of events gets next: first from the store what the log in memory has given up, then from the log,
// as far as he has come, when his connection has room for it.
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

// For one thread. The log must outlive it.
class EventFeed {
 public:
  // `from_now`: query.after and query.since_unix_ns say nothing, and he gets what happens from here on. `store`:
  // nullptr where events are kept in memory only. `wake`: called from the store's thread when next() has more to say.
  EventFeed(const observe::EventLog& log, tenancy::EventStore* store, node::Caller caller, tenancy::EventQuery query,
            bool from_now, std::function<void()> wake);

  // Some of those that he asked for and may see; empty: there is none now. Of what he missed (events.missed) he may not
  // have been allowed to see all, but nothing is left out in silence.
  [[nodiscard]] std::vector<http::Event> next();
  // Nothing more comes before `wake` is called.
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
  std::shared_ptr<Former> former_;  // null: all that there is lies in the log
  observe::EventCursor cursor_;
};

}  // namespace headgate::api
