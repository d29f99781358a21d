// The clients that follow events: their streams, and how many one user may have. For the loop's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "api/event_feed.hpp"
#include "http/event_stream.hpp"
#include "http/message.hpp"

namespace headgate::api {

class EventFollowers {
 public:
  // Answers with a stream of the events that the request asks for. Errors: 429 if the user has `most_per_user` streams;
  // usage.
  [[nodiscard]] http::Response add(const http::Request& request, const node::Caller& caller, observe::EventLog& events,
                                   tenancy::EventStore* history, std::size_t most_per_user);
  // Sends each its new events, as many as its connection can take.
  void wake();
  // Ends all streams.
  void finish();

 private:
  struct Follower {
    std::shared_ptr<http::EventStream> stream;
    std::uint32_t uid = 0;
  };
  void forget_gone();

  std::list<Follower> followers_;
};

}  // namespace headgate::api
