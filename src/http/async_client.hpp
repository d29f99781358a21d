// A client on the loop: nothing here blocks (but see address_of about host names). For the loop's thread only.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "http/codec.hpp"
#include "http/endpoint.hpp"
#include "http/event_stream.hpp"
#include "http/loop.hpp"

namespace headgate::http {

// A request under way. Destroying it abandons it: no callback comes any more.
class Call {
 public:
  virtual ~Call() = default;
};

// `done` runs once, later, on the loop's thread; it may destroy the Call. Errors as those of the blocking exchange().
[[nodiscard]] std::unique_ptr<Call> exchange(Loop& loop, const Endpoint& endpoint, const OutgoingRequest& request,
                                             std::chrono::milliseconds deadline,
                                             std::function<void(Result<IncomingResponse>)> done);

struct Subscriber {
  std::function<void()> opened;             // the server answered 200
  std::function<void(const Event&)> event;  // each one, in order
  // Once, at the end: no error where the server ended the stream. Nothing comes after it.
  std::function<void(Result<void>)> ended;
};
// `deadline` is for the head of the answer; a stream silent for `silence` (heartbeats are no silence) is ended.
// Callbacks may destroy the Call.
[[nodiscard]] std::unique_ptr<Call> subscribe(Loop& loop, const Endpoint& endpoint, OutgoingRequest request,
                                              std::chrono::milliseconds deadline, std::chrono::milliseconds silence,
                                              Subscriber subscriber);

}  // namespace headgate::http
