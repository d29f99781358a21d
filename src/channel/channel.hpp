// The task channel: the daemon submits tasks and learns how each ended; external agents pull them over HTTP, by an
// event stream or a long poll, and post answers. For the loop's thread only. Tasks are not kept over a restart, because
// their submitters are not either.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "channel/tasks.hpp"
#include "http/loop.hpp"
#include "http/message.hpp"
#include "http/router.hpp"

namespace headgate::channel {

// Checks whether the caller may act for the client; an error denies. `client` is empty if all clients are meant.
using Authorise = std::function<Result<void>(const http::Request& request, const std::string& client)>;

struct ChannelOptions {
  TaskLimits limits{};
  Authorise authorise;                             // must be set
  std::size_t window = 8;                          // tasks that one stream may hold at a time
  std::chrono::milliseconds longest_poll{50'000};  // less than the server's time limit for a handler
};

class Channel {
 public:
  using Settled = std::function<void(const Task& task)>;

  Channel(http::Loop& loop, ChannelOptions options);
  // Ends streams, answers polls with nothing, and cancels open tasks without notifying their submitters.
  ~Channel();

  // Adds GET /v1/channel, /v1/channel/{client}, /v1/channel/{client}/tasks; POST .../tasks/{id}/ack,
  // .../tasks/{id}/result. The handlers may outlive the Channel and then answer 503.
  void add_routes(http::Router& router);

  // Calls `settled` once, later, with the task in its final state; it may submit and cancel. Errors: those of
  // Tasks::submit, and usage if the payload is not JSON or nested deeper than 32.
  [[nodiscard]] Result<TaskId> submit(const Submission& submission, Settled settled);
  // Cancels a task and notifies its holder. Returns false if there is no such open task. `settled` is still called.
  bool cancel(TaskId id);

  // Returns how many streams and polls wait for the client's tasks, that is, whether an agent is connected.
  [[nodiscard]] std::size_t listeners(const std::string& client) const;
  [[nodiscard]] const Task* find(TaskId id) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with handlers that may outlive the channel
};

}  // namespace headgate::channel
