// Server-sent events as text, both ways (WHATWG HTML, section 9.2).
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "http/event_stream.hpp"

namespace headgate::http {

// The event as it goes over the wire, its empty line included. Line breaks inside `data` (LF, CR, CRLF) come back as
// LF.
[[nodiscard]] std::string event_text(const Event& event);

// A comment: receivers skip it, and know that the sender lives.
inline constexpr std::string_view kHeartbeat = ":\n\n";

// Text in pieces of any size -> events. Comments, unknown fields and blocks without data are skipped, as the standard
// asks. Not thread-safe.
class EventReader {
 public:
  // An event of more bytes than this is refused: feed() answers false, and so do all later calls.
  explicit EventReader(std::size_t most_bytes = 4 << 20) : most_bytes_(most_bytes) {}

  [[nodiscard]] bool feed(std::string_view bytes);
  [[nodiscard]] std::optional<Event> next();

 private:
  void end_line();

  const std::size_t most_bytes_;
  std::string line_;
  Event event_;
  std::string id_;  // holds on from one event to the next
  bool has_data_ = false;
  bool after_cr_ = false;
  bool at_start_ = true;
  bool refused_ = false;
  std::deque<Event> ready_;
};

}  // namespace headgate::http
