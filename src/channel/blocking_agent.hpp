// An agent for a thread of its own: pull, work, answer, by long polls. Not thread-safe.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "channel/agent.hpp"
#include "channel/backoff.hpp"
#include "channel/wire.hpp"

namespace headgate::channel {

class BlockingAgent {
 public:
  // `silence` is not used: a poll is answered in its time.
  explicit BlockingAgent(AgentOptions options);

  // A task, acknowledged: its lease is the time until answer() or keep() is due. Nothing when none came for `wait`.
  // While the server is away it is asked again, less and less often, to the end of `wait`: then unreachable.
  [[nodiscard]] Result<std::optional<Assignment>> pull(std::chrono::milliseconds wait);
  // Renews the lease. An error (that of the server): the task is not ours any more.
  [[nodiscard]] Result<std::chrono::milliseconds> keep(const Assignment& task);
  // Tried until it is taken, refused, or `task.expires` has passed from now.
  [[nodiscard]] Result<void> answer(const Assignment& task, bool ok, const std::string& result);

 private:
  struct Ask;
  [[nodiscard]] Result<std::string> ask(const Ask& ask);
  [[nodiscard]] Result<std::string> ask_until(const Ask& ask, std::chrono::steady_clock::time_point end);

  const AgentOptions options_;
  Backoff backoff_;
};

}  // namespace headgate::channel
