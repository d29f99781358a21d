#include "observe/event_cursor.hpp"

#include <algorithm>
#include <string>

namespace headgate::observe {
namespace {

snapshot::Event missed(std::uint64_t count, const snapshot::Event& before) {
  const std::uint64_t last = before.sequence - 1;
  return {.sequence = last,
          .unix_ns = before.unix_ns,
          .kind = EventCursor::kMissed,
          .severity = "warn",
          .text = std::to_string(count) + (count == 1 ? " event" : " events") + " up to number " +
                  std::to_string(last) + (count == 1 ? " was" : " were") + " dropped before this reader received " +
                  (count == 1 ? "it" : "them")};
}

}  // namespace

EventCursor::EventCursor(const EventLog& log, std::optional<std::uint64_t> after) {
  const std::uint64_t newest = log.last_sequence();
  last_ = after ? (*after > newest ? 0 : *after) : newest;
  since_ = after == 0 ? newest : after && *after > newest ? log.began_after() : last_;
}

std::vector<snapshot::Event> EventCursor::next(const EventLog& log, std::size_t most) {
  return pass(log, log.after(last_, most));
}

std::vector<snapshot::Event> EventCursor::pass(const EventLog& log, std::vector<snapshot::Event> some) {
  std::vector<snapshot::Event> told;
  for (auto& event : some) {
    const std::uint64_t known = std::max(last_, since_);
    if (const std::uint64_t gone = log.numbers_between(known, event.sequence); gone > 0)
      told.push_back(missed(gone, event));
    last_ = event.sequence;
    told.push_back(std::move(event));
  }
  return told;
}

}  // namespace headgate::observe
