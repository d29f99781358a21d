#include "channel/blocking_agent.hpp"

#include <algorithm>
#include <random>
#include <thread>

#include "http/client.hpp"

namespace headgate::channel {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct BlockingAgent::Ask {
  std::string method;
  std::string target;
  std::string body{};
  milliseconds patience{};  // how long the server may take beyond the exchange's deadline
};

BlockingAgent::BlockingAgent(AgentOptions options)
    : options_(std::move(options)), backoff_(options_.backoff, std::random_device()()) {}

Result<std::string> BlockingAgent::ask(const Ask& ask) {
  http::OutgoingRequest request{.method = ask.method, .target = ask.target, .body = ask.body};
  if (!options_.token.empty()) request.headers.push_back({"Authorization", "Bearer " + options_.token});
  const auto response = TRY(http::exchange(options_.server, request, options_.deadline + ask.patience));
  if (response.status != 200) return std::unexpected(http::error_of(response.status, response.body));
  return response.body;
}

Result<std::string> BlockingAgent::ask_until(const Ask& asked, Clock::time_point end) {
  for (;;) {
    auto body = ask(asked);
    if (body) backoff_.succeeded();
    if (body || !may_pass(body.error().code)) return body;
    const auto pause = backoff_.next();
    if (Clock::now() + pause >= end) return body;
    std::this_thread::sleep_for(pause);
  }
}

Result<std::optional<Assignment>> BlockingAgent::pull(milliseconds wait) {
  const auto end = Clock::now() + wait;
  for (;;) {
    const auto left = std::max(milliseconds(0), std::chrono::ceil<milliseconds>(end - Clock::now()));
    const std::string target = tasks_target(options_.client) + "?wait=" + std::to_string(left.count()) + "ms";
    const auto body = TRY(ask_until({.method = "GET", .target = target, .patience = left}, end));
    const auto tasks = TRY(parse_assignments(body));
    for (const auto& task : tasks) {
      const auto granted = keep(task);
      if (!granted) continue;  // lost on the way; it comes again
      Assignment kept = task;
      kept.lease = *granted;
      return kept;
    }
    // The server may end a long poll early.
    if (Clock::now() >= end) return std::nullopt;
  }
}

Result<milliseconds> BlockingAgent::keep(const Assignment& task) {
  const std::string target = acknowledge_target(options_.client, task.id, task.attempt);
  const auto body = TRY(ask_until({.method = "POST", .target = target}, Clock::now() + task.lease));
  const auto granted = parse_granted(body);
  if (!granted) return fail(ErrorCode::failed, "the channel's answer names no lease");
  return *granted;
}

Result<void> BlockingAgent::answer(const Assignment& task, bool ok, const std::string& result) {
  const std::string target = result_target(options_.client, task.id, task.attempt, ok);
  TRY(ask_until({.method = "POST", .target = target, .body = result}, Clock::now() + task.expires));
  return {};
}

}  // namespace headgate::channel
