// A reader's position in the log of events. A value: discarding a copy reads nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "observe/event_log.hpp"

namespace headgate::observe {

class EventCursor {
 public:
  // Reports events that the log gave up before this reader took them, and how many.
  static constexpr const char* kMissed = "events.missed";

  // `after`: the last event that the reader has; none: only new ones; 0: all that are kept. A number that the log has
  // not reached is of a former daemon's log: all events of this one are new to the reader.
  EventCursor(const EventLog& log, std::optional<std::uint64_t> after);

  // Returns the next events, at most `most`, in order, each once; empty: there is none now. If the log has given some
  // up, events.missed replaces them, with the number of the last of them.
  [[nodiscard]] std::vector<snapshot::Event> next(const EventLog& log, std::size_t most);
  // As above for `some`, which come next and were kept elsewhere.
  [[nodiscard]] std::vector<snapshot::Event> pass(const EventLog& log, std::vector<snapshot::Event> some);

 private:
  std::uint64_t last_ = 0;   // looked at
  std::uint64_t since_ = 0;  // events up to here were already given up when asked for
};

}  // namespace headgate::observe
