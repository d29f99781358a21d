// A client that blocks, for commands and for threads of their own. One connection for each exchange.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "base/unique_fd.hpp"
#include "http/codec.hpp"
#include "http/endpoint.hpp"
#include "http/event_text.hpp"

namespace headgate::http {

// The answer, whatever its status; `deadline` is for all of it. No server, a server that hangs up or is too slow, and
// bytes that are no HTTP: unreachable.
[[nodiscard]] Result<IncomingResponse> exchange(const Endpoint& endpoint, const OutgoingRequest& request,
                                                std::chrono::milliseconds deadline);

// 0, or the errno for which no server can be reached. One that is stopped is reached, for the kernel answers.
[[nodiscard]] int try_to_connect(const Endpoint& endpoint);

// A stream of server-sent events. Not thread-safe.
class EventSource {
 public:
  // An answer other than 200 is the Error that its body tells.
  [[nodiscard]] static Result<EventSource> open(const Endpoint& endpoint, OutgoingRequest request,
                                                std::chrono::milliseconds deadline);
  EventSource(EventSource&&) noexcept;
  EventSource& operator=(EventSource&&) noexcept;
  ~EventSource();

  // The next event; nothing when the server has ended the stream; unreachable when no byte came for `silence`
  // (heartbeats are bytes) or the connection broke.
  [[nodiscard]] Result<std::optional<Event>> next(std::chrono::milliseconds silence);

 private:
  struct Impl;
  explicit EventSource(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace headgate::http
