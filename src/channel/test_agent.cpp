#include "channel/test_agent.hpp"

#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "http/client.hpp"
#include "http/codec.hpp"

namespace headgate::channel {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using std::chrono::milliseconds;

namespace {

std::unexpected<Error> refuse(std::string_view what) {
  return fail(ErrorCode::failed, "the channel sent a task without " + std::string(what),
              "do server and agent have the same version?");
}

template <typename Number>
std::optional<Number> number(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto value = found->get<std::uint64_t>();
  if (value > std::numeric_limits<Number>::max()) return std::nullopt;
  return static_cast<Number>(value);
}

std::optional<milliseconds> duration(const Json& object, const char* key) {
  const auto count = number<std::uint64_t>(object, key);
  // Times become nanoseconds: 10^12 ms are 31 years and cannot overflow.
  if (!count || *count > 1'000'000'000'000) return std::nullopt;
  return milliseconds(*count);
}

Result<Assignment> assignment_from(const Json& object) {
  if (!object.is_object()) return refuse("fields");
  const auto id = number<TaskId>(object, "id");
  const auto attempt = number<unsigned>(object, "attempt");
  const auto lease = duration(object, "lease_ms");
  const auto expires = duration(object, "expires_ms");
  const auto kind = object.find("kind");
  const auto payload = object.find("payload");
  if (!id || *id == 0) return refuse("an id");
  if (!attempt || *attempt == 0) return refuse("the number of its attempt");
  if (!lease || !expires) return refuse("its times");
  if (kind == object.end() || !kind->is_string()) return refuse("a kind");
  if (payload == object.end()) return refuse("a payload");
  return Assignment{.id = *id,
                    .attempt = *attempt,
                    .kind = kind->get<std::string>(),
                    .payload = payload->dump(),
                    .lease = *lease,
                    .expires = *expires};
}

std::string path_of(std::string_view client) { return "/v1/channel/" + http::escape(client) + "/tasks"; }

}  // namespace

Result<std::vector<Assignment>> parse_assignments(std::string_view text) {
  const Json parsed = Json::parse(text, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("tasks") || !parsed["tasks"].is_array()) {
    return fail(ErrorCode::failed, "the channel's answer is no list of tasks");
  }
  std::vector<Assignment> assignments;
  for (const auto& object : parsed["tasks"]) assignments.push_back(TRY(assignment_from(object)));
  return assignments;
}

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
    const std::string target = path_of(options_.client) + "?wait=" + std::to_string(left.count()) + "ms";
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
  const std::string target =
      path_of(options_.client) + "/" + std::to_string(task.id) + "/ack?attempt=" + std::to_string(task.attempt);
  const auto body = TRY(ask_until({.method = "POST", .target = target}, Clock::now() + task.lease));
  const Json parsed = Json::parse(body, nullptr, false);
  const auto granted = parsed.is_object() ? duration(parsed, "lease_ms") : std::nullopt;
  if (!granted) return fail(ErrorCode::failed, "the channel's answer names no lease");
  return *granted;
}

Result<void> BlockingAgent::answer(const Assignment& task, bool ok, const std::string& result) {
  const std::string target = path_of(options_.client) + "/" + std::to_string(task.id) +
                             "/result?attempt=" + std::to_string(task.attempt) + (ok ? "" : "&ok=false");
  TRY(ask_until({.method = "POST", .target = target, .body = result}, Clock::now() + task.expires));
  return {};
}

}  // namespace headgate::channel
