// An agent on the loop: pulls a client's tasks over a stream, acknowledges each, hands it to a handler, keeps its lease
// while the handler thinks, and posts the answer. When the connection goes it comes back, later each time, and at once
// after a success. For the loop's thread only.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "channel/backoff.hpp"
#include "channel/wire.hpp"
#include "http/endpoint.hpp"
#include "http/loop.hpp"

namespace headgate::channel {

struct AgentOptions {
  http::Endpoint server{};
  std::string client{};
  std::string token{};  // empty: the Unix socket says who we are
  Backoff::Range backoff{};
  std::chrono::milliseconds deadline{5'000};  // each exchange
  std::chrono::milliseconds silence{5'000};   // a stream beats each second; one that does not is given up
};

class Agent {
 public:
  // None of them may end the Agent.
  struct Handlers {
    // An acknowledged task. Answer by answer(), now or later; a task may come again if an answer was lost.
    std::function<void(const Assignment& task)> task;
    // Nobody wants the answer any more: cancelled, expired, or the lease was lost while the server was away.
    std::function<void(TaskId id)> withdrawn;
    std::function<void(bool connected)> connection;  // each change; may be empty, as may `withdrawn`
  };

  Agent(http::Loop& loop, AgentOptions options, Handlers handlers);
  ~Agent();  // tasks in hand go to the next agent when their leases end

  // `result` is JSON, or with ok = false any text. Posted until it is taken or the task has expired. Ignored for a task
  // that is not in hand.
  void answer(TaskId id, bool ok, std::string result);

  [[nodiscard]] bool connected() const;
  [[nodiscard]] std::size_t in_hand() const;  // tasks acknowledged or answered, and not yet done with

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headgate::channel
