// An agent for a dedicated thread: pull, work, answer, by long polls. Not thread-safe.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "channel/backoff.hpp"
#include "channel/wire.hpp"
#include "http/endpoint.hpp"

namespace headgate::channel {

struct AgentOptions {
  http::Endpoint server{};
  std::string client{};
  std::string token{};  // empty: the Unix socket tells the daemon our user
  Backoff::Range backoff{};
  std::chrono::milliseconds deadline{5'000};  // of each exchange
};

class BlockingAgent {
 public:
  explicit BlockingAgent(AgentOptions options);

  // Returns an acknowledged task; call answer() or keep() before its lease ends. Returns nothing if none came within
  // `wait`. Retries with backoff while the server is away. Errors: unreachable if it is still away after `wait`.
  [[nodiscard]] Result<std::optional<Assignment>> pull(std::chrono::milliseconds wait);
  // Renews the lease. Errors: the server's; the task is then lost.
  [[nodiscard]] Result<std::chrono::milliseconds> keep(const Assignment& task);
  // Retries until the answer is accepted or refused, or `task.expires` has passed from now.
  [[nodiscard]] Result<void> answer(const Assignment& task, bool ok, const std::string& result);

 private:
  struct Ask;
  [[nodiscard]] Result<std::string> ask(const Ask& ask);
  [[nodiscard]] Result<std::string> ask_until(const Ask& ask, std::chrono::steady_clock::time_point end);

  const AgentOptions options_;
  Backoff backoff_;
};

}  // namespace headgate::channel
