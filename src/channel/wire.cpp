#include "channel/wire.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/whole_number.hpp"
#include "http/codec.hpp"

namespace headgate::channel {
namespace {

using std::chrono::milliseconds;
using Json = nlohmann::json;

constexpr int kDeepest = 32;

// Returns nullopt if the text is not JSON or is deeper than `deepest`.
std::optional<Json> parse_shallow(std::string_view text, int deepest) {
  bool too_deep = false;
  const auto keep = [&](int depth, Json::parse_event_t, const Json&) {
    too_deep = too_deep || depth > deepest;
    return !too_deep;
  };
  Json parsed = Json::parse(text, keep, false);
  if (too_deep || parsed.is_discarded()) return std::nullopt;
  return parsed;
}

std::int64_t whole_ms(Time time) {
  return std::max<std::int64_t>(0, std::chrono::duration_cast<milliseconds>(time).count());
}

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

std::string task_path(std::string_view client, TaskId id) { return tasks_target(client) + "/" + std::to_string(id); }

}  // namespace

bool is_json(std::string_view text) { return parse_shallow(text, kDeepest).has_value(); }

std::string assignment_text(const Task& task, Time now) {
  // Kind and payload were checked at submission: a name needs no escape, a payload is JSON.
  return "{\"id\":" + std::to_string(task.id) + ",\"attempt\":" + std::to_string(task.attempt) + ",\"kind\":\"" +
         task.kind + "\",\"lease_ms\":" + std::to_string(whole_ms(task.lease_ends - now)) +
         ",\"expires_ms\":" + std::to_string(whole_ms(task.expires - now)) + ",\"payload\":" + task.payload + "}";
}

Result<Assignment> parse_assignment(std::string_view text) {
  const auto parsed = parse_shallow(text, kDeepest + 1);
  if (!parsed) return fail(ErrorCode::failed, "the channel sent a task that is no JSON");
  return assignment_from(*parsed);
}

std::string assignments_text(const std::vector<std::string>& assignments) {
  std::string text = "{\"tasks\":[";
  for (const auto& assignment : assignments) {
    if (!text.ends_with('[')) text += ',';
    text += assignment;
  }
  return text + "]}";
}

Result<std::vector<Assignment>> parse_assignments(std::string_view text) {
  const auto parsed = parse_shallow(text, kDeepest + 3);
  if (!parsed || !parsed->is_object() || !parsed->contains("tasks") || !(*parsed)["tasks"].is_array()) {
    return fail(ErrorCode::failed, "the channel's answer is no list of tasks");
  }
  std::vector<Assignment> assignments;
  for (const auto& object : (*parsed)["tasks"]) assignments.push_back(TRY(assignment_from(object)));
  return assignments;
}

std::string cancelled_text(TaskId id, State state) {
  return "{\"id\":" + std::to_string(id) + ",\"state\":\"" + std::string(word(state)) + "\"}";
}

std::optional<TaskId> parse_cancelled(std::string_view text) {
  const auto parsed = parse_shallow(text, kDeepest);
  return parsed && parsed->is_object() ? number<TaskId>(*parsed, "id") : std::nullopt;
}

std::string granted_text(Time lease) { return "{\"lease_ms\":" + std::to_string(whole_ms(lease)) + "}"; }

std::optional<milliseconds> parse_granted(std::string_view text) {
  const auto parsed = parse_shallow(text, kDeepest);
  if (!parsed || !parsed->is_object()) return std::nullopt;
  return duration(*parsed, "lease_ms");
}

std::optional<Leave> parse_leave(std::string_view text) {
  const auto parsed = parse_shallow(text, kDeepest);
  if (!parsed || !parsed->is_object()) return std::nullopt;
  const auto allow = parsed->find("allow");
  if (allow == parsed->end() || !allow->is_boolean()) return std::nullopt;
  const auto reason = parsed->find("reason");
  const bool has_reason = reason != parsed->end() && reason->is_string();
  return Leave{allow->get<bool>(), has_reason ? reason->get<std::string>() : std::string()};
}

Result<milliseconds> parse_wait(std::string_view text, milliseconds most) {
  const bool ms = text.ends_with("ms");
  const auto count = whole_number<std::uint32_t>(text.substr(0, text.size() - (ms ? 2 : text.ends_with('s') ? 1 : 0)));
  if (count) return std::min(ms ? milliseconds(*count) : milliseconds(1000LL * *count), most);
  return fail(ErrorCode::usage, "'" + std::string(text) + "' is no time to wait", "accepted: 30s, 500ms, 30");
}

std::string tasks_target(std::string_view client) { return "/v1/channel/" + http::escape(client) + "/tasks"; }

std::string acknowledge_target(std::string_view client, TaskId id, unsigned attempt) {
  return task_path(client, id) + "/ack?attempt=" + std::to_string(attempt);
}

std::string result_target(std::string_view client, TaskId id, unsigned attempt, bool ok) {
  return task_path(client, id) + "/result?attempt=" + std::to_string(attempt) + (ok ? "" : "&ok=false");
}

}  // namespace headgate::channel
