// How far one reader of the log of events has come. A value: a copy that is thrown away has read nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "observe/event_log.hpp"

namespace headgate::observe {

class EventCursor {
 public:
  // Of events that the log had given up before this reader took them, and how many.
  static constexpr const char* kMissed = "events.missed";

  // `after`: the last that the reader has; none: what happens from here on. 0: all that are kept. A number that the log
  // has not reached is of a former daemon's log: all that happened in this one is new to the reader.
  EventCursor(const EventLog& log, std::optional<std::uint64_t> after);

  // The next of them, `most` or fewer, in order, each once; empty: there is none now. Where the log has given some up,
  // events.missed stands in their place, with the number of the last of them.
  [[nodiscard]] std::vector<snapshot::Event> next(const EventLog& log, std::size_t most);
  // The same of `some`, which come next and were kept elsewhere.
  [[nodiscard]] std::vector<snapshot::Event> pass(const EventLog& log, std::vector<snapshot::Event> some);

 private:
  std::uint64_t last_ = 0;   // looked at
  std::uint64_t since_ = 0;  // what was gone up to here was gone before it was asked for
};

}  // namespace headgate::observe
