#include "channel/wire.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/whole_number.hpp"

namespace headgate::channel {
namespace {

using std::chrono::milliseconds;
using Json = nlohmann::json;

constexpr int kDeepest = 32;

// Returns nullopt if the text is not JSON or is too deep.
std::optional<Json> parse_shallow(std::string_view text) {
  bool too_deep = false;
  const auto keep = [&](int depth, Json::parse_event_t, const Json&) {
    too_deep = too_deep || depth > kDeepest;
    return !too_deep;
  };
  Json parsed = Json::parse(text, keep, false);
  if (too_deep || parsed.is_discarded()) return std::nullopt;
  return parsed;
}

std::int64_t whole_ms(Time time) {
  return std::max<std::int64_t>(0, std::chrono::duration_cast<milliseconds>(time).count());
}

}  // namespace

bool is_json(std::string_view text) { return parse_shallow(text).has_value(); }

std::string assignment_text(const Task& task, Time now) {
  // Kind and payload were checked at submission: a name needs no escape, a payload is JSON.
  return "{\"id\":" + std::to_string(task.id) + ",\"attempt\":" + std::to_string(task.attempt) + ",\"kind\":\"" +
         task.kind + "\",\"lease_ms\":" + std::to_string(whole_ms(task.lease_ends - now)) +
         ",\"expires_ms\":" + std::to_string(whole_ms(task.expires - now)) + ",\"payload\":" + task.payload + "}";
}

std::string assignments_text(const std::vector<std::string>& assignments) {
  std::string text = "{\"tasks\":[";
  for (const auto& assignment : assignments) {
    if (!text.ends_with('[')) text += ',';
    text += assignment;
  }
  return text + "]}";
}

std::string cancelled_text(TaskId id, State state) {
  return "{\"id\":" + std::to_string(id) + ",\"state\":\"" + std::string(word(state)) + "\"}";
}

std::string granted_text(Time lease) { return "{\"lease_ms\":" + std::to_string(whole_ms(lease)) + "}"; }

std::optional<Leave> parse_leave(std::string_view text) {
  const auto parsed = parse_shallow(text);
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

}  // namespace headgate::channel
