// The task channel: our side submits tasks and is told how each ended; agents outside pull them over HTTP, by a stream
// of events or a long poll, and post their answers. For the loop's thread only; nothing is kept over a restart, as the
// submitters do not live longer either.
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

// Whether who asks may speak for the client; an error denies. `client` is empty where the request is about all clients.
using Authorise = std::function<Result<void>(const http::Request& request, const std::string& client)>;

struct ChannelOptions {
  TaskLimits limits{};
  Authorise authorise;                             // must be set
  std::size_t window = 8;                          // tasks that one stream holds at a time
  std::chrono::milliseconds longest_poll{50'000};  // less than the server lets a handler take
};

class Channel {
 public:
  using Settled = std::function<void(const Task& task)>;

  Channel(http::Loop& loop, ChannelOptions options);
  // Streams end, polls are answered with nothing; what is open is cancelled without a word to its submitter.
  ~Channel();

  // GET /v1/channel, /v1/channel/{client}, /v1/channel/{client}/tasks; POST .../tasks/{id}/ack, .../tasks/{id}/result.
  // The handlers may outlive the Channel: they then answer 503.
  void add_routes(http::Router& router);

  // `settled` is called once, later, with the task in its last state; it may submit and cancel. Errors: those of
  // Tasks::submit, and usage for a payload that is no JSON or nested deeper than 32.
  [[nodiscard]] Result<TaskId> submit(const Submission& submission, Settled settled);
  // The holder is told over its stream. False: there is no such open task. `settled` is called all the same.
  bool cancel(TaskId id);

  // Streams and polls that wait for the client's tasks now: is anybody there to ask?
  [[nodiscard]] std::size_t listeners(const std::string& client) const;
  [[nodiscard]] const Task* find(TaskId id) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with the handlers of routers that live on
};

}  // namespace headgate::channel
