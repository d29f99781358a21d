// What one follower of events gets next: taken from the log as far as he has come, when his connection has room for it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "http/event_stream.hpp"
#include "node/node.hpp"
#include "observe/event_cursor.hpp"

namespace headgate::api {

// For one thread. The log must outlive it.
class EventFeed {
 public:
  // `after`: as of observe::EventCursor.
  EventFeed(const observe::EventLog& log, node::Caller caller, std::optional<std::uint64_t> after)
      : log_(log), caller_(std::move(caller)), cursor_(log, after) {}

  // Some of those that he may see; empty: there is none now. Of what he missed (events.missed) he may not have been allowed to see
  // all, but nothing is left out in silence.
  [[nodiscard]] std::vector<http::Event> next();

 private:
  const observe::EventLog& log_;
  const node::Caller caller_;
  observe::EventCursor cursor_;
};

}  // namespace headgate::api
