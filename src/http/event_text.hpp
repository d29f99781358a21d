// Formats and parses server-sent events (WHATWG HTML, section 9.2).
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "http/event_stream.hpp"

namespace headgate::http {

// Formats an event for the wire, with its final empty line. Line breaks in `data` (LF, CR, CRLF) are read back as LF.
[[nodiscard]] std::string event_text(const Event& event);

// A comment, which receivers skip; it shows that the sender is alive.
inline constexpr std::string_view kHeartbeat = ":\n\n";

// Parses events from text in pieces of any size. Skips comments, unknown fields and blocks without data, as the
// standard requires. Not thread-safe.
class EventReader {
 public:
  // If an event exceeds this size, feed() returns false, then and at all later calls.
  explicit EventReader(std::size_t most_bytes = 4 << 20) : most_bytes_(most_bytes) {}

  [[nodiscard]] bool feed(std::string_view bytes);
  [[nodiscard]] std::optional<Event> next();

 private:
  void end_line();

  const std::size_t most_bytes_;
  std::string line_;
  Event event_;
  std::string id_;  // persists from one event to the next
  bool has_data_ = false;
  bool after_cr_ = false;
  bool at_start_ = true;
  bool refused_ = false;
  std::deque<Event> ready_;
};

}  // namespace headgate::http
