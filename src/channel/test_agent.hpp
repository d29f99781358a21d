// The agent of the tests, for a dedicated thread: pull, work, answer, by long polls (docs/channel.md). Not thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "channel/tasks.hpp"
#include "http/endpoint.hpp"

namespace headgate::channel {

// A task as sent to its holder.
struct Assignment {
  TaskId id = 0;
  unsigned attempt = 0;
  std::string kind;
  std::string payload;                  // JSON
  std::chrono::milliseconds lease{};    // to acknowledge; counted from sending, as is the next
  std::chrono::milliseconds expires{};  // after it, the answer is not needed
  friend bool operator==(const Assignment&, const Assignment&) = default;
};

// Reads {"tasks": [...]}. Errors: failed, with what is wrong.
[[nodiscard]] Result<std::vector<Assignment>> parse_assignments(std::string_view text);

// Delays between retries: doubling, with jitter, reset after a success.
class Backoff {
 public:
  struct Range {
    std::chrono::milliseconds first{100};
    std::chrono::milliseconds most{10'000};
  };

  // `seed`: different for each agent, so that agents do not reconnect to a restarted server in step.
  Backoff(Range range, std::uint64_t seed) : range_(range), ceiling_(range.first), random_(seed) {}

  // Returns a delay between half the ceiling and the ceiling; then doubles the ceiling, up to `most`.
  [[nodiscard]] std::chrono::milliseconds next() {
    const auto ceiling = ceiling_;
    ceiling_ = std::min(ceiling_ * 2, range_.most);
    return ceiling / 2 + std::chrono::milliseconds(random_() % static_cast<std::uint64_t>(ceiling.count() / 2 + 1));
  }
  void succeeded() { ceiling_ = range_.first; }

 private:
  const Range range_;
  std::chrono::milliseconds ceiling_;
  std::mt19937_64 random_;
};

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
