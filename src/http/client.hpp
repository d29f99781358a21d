// A blocking client, for commands and dedicated threads. One connection per exchange.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "base/unique_fd.hpp"
#include "http/codec.hpp"
#include "http/endpoint.hpp"
#include "http/event_text.hpp"

namespace headgate::http {

// Returns the response, whatever its status; `deadline` covers the whole exchange. Errors: unreachable if there is no
// server, it closes early or is too slow, or the bytes are not HTTP.
[[nodiscard]] Result<IncomingResponse> exchange(const Endpoint& endpoint, const OutgoingRequest& request,
                                                std::chrono::milliseconds deadline);

// 0, or the errno for which no server can be reached. One that is stopped is reached, for the kernel answers.
[[nodiscard]] int try_to_connect(const Endpoint& endpoint);

// A stream of server-sent events. Not thread-safe.
class EventSource {
 public:
  // Opens the stream. A response other than 200 becomes the Error in its body.
  [[nodiscard]] static Result<EventSource> open(const Endpoint& endpoint, OutgoingRequest request,
                                                std::chrono::milliseconds deadline);
  EventSource(EventSource&&) noexcept;
  EventSource& operator=(EventSource&&) noexcept;
  ~EventSource();

  // Returns the next event, or nothing if the server ended the stream. Errors: unreachable if no byte came for
  // `silence` (heartbeats count) or the connection broke.
  [[nodiscard]] Result<std::optional<Event>> next(std::chrono::milliseconds silence);

 private:
  struct Impl;
  explicit EventSource(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace headgate::http
