#include "api/schemas.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "power/request.hpp"

namespace headgate::api {
namespace {

using Json = nlohmann::ordered_json;

Json reference(const std::string& schema) { return {{"$ref", "#/components/schemas/" + schema}}; }
Json list_of(const Json& items) { return {{"type", "array"}, {"items", items}}; }
Json accepted(Json schema, std::string_view what) {
  schema["description"] = "accepted: " + std::string(what);
  return schema;
}

struct Property {
  const char* name;
  Json schema;
  bool required = true;
};

Json object_schema(const std::vector<Property>& properties) {
  Json schema = {
      {"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}, {"additionalProperties", false}};
  for (const auto& [name, of, required] : properties) {
    schema["properties"][name] = of;
    if (required) schema["required"].push_back(name);
  }
  return schema;
}

// The replies of /v1/power.
void add_power_schemas(Json& all) {
  const Json text = {{"type", "string"}}, flag = {{"type", "boolean"}};
  const Json whole = {{"type", "integer"}, {"minimum", 0}},
             maybe_whole = {{"type", {"integer", "null"}}, {"minimum", 0}};
  const Json range = list_of(whole), maybe_range = {{"type", {"array", "null"}}, {"items", whole}};
  all["PowerSettings"] = object_schema(
      {{"power_limit", accepted(text, config::kAcceptedPowerLimit), false},
       {"power_limit_mw", whole, false},
       {"gpu_clocks", accepted(text, config::kAcceptedClocks), false},
       {"gpu_clocks_mhz", accepted(range, "[least, greatest]; [0, 0]: not locked"), false},
       {"mem_clocks", accepted(text, config::kAcceptedClocks), false},
       {"mem_clocks_mhz", accepted(range, "[least, greatest]; [0, 0]: not locked"), false},
       {"persistence", flag, false},
       {"compute_mode", accepted({{"type", {"string", "integer"}}, {"minimum", 0}}, config::kAcceptedComputeMode),
        false},
       {"time_slice", accepted(text, config::kAcceptedTimeSlice), false},
       {"budget", accepted(text, "watts of all named GPUs together: 500W; not beside power_limit"), false},
       {"weights", accepted(list_of(whole), "1 to 1000 for each GPU: the budget's parts"), false}});
  all["PowerProfile"] = object_schema({{"name", text}, {"settings", reference("PowerSettings")}, {"origin", text}});
  const Json lease_on_gpu = object_schema({{"id", text},
                                           {"controls", list_of(text)},
                                           {"holder", text},
                                           {"owner_uid", whole},
                                           {"holder_pid", whole},
                                           {"ttl_s", whole},
                                           {"ends_at_s", {{"type", "integer"}}},
                                           {"paused", flag}});
  const Json gpu = object_schema({{"index", whole},
                                  {"uuid", text},
                                  {"model", text},
                                  {"power_mw", maybe_whole},
                                  {"energy_mj", maybe_whole},
                                  {"requested_limit_mw", maybe_whole},
                                  {"enforced_limit_mw", maybe_whole},
                                  {"min_limit_mw", maybe_whole},
                                  {"max_limit_mw", maybe_whole},
                                  {"default_limit_mw", maybe_whole},
                                  {"persistence", {{"type", {"boolean", "null"}}}},
                                  {"compute_mode", text},
                                  {"gpu_clocks_mhz", maybe_range},
                                  {"mem_clocks_mhz", maybe_range},
                                  {"sm_clock_mhz", maybe_whole},
                                  {"memory_clock_mhz", maybe_whole},
                                  {"throttle_reasons", list_of(text)},
                                  {"leases", list_of(lease_on_gpu)},
                                  {"waiting", whole}});
  all["Power"] = object_schema({{"gpus", list_of(gpu)}, {"drift", text}, {"at_start", text}});
  const Json change = object_schema({{"control", text}, {"from", text}, {"to", text}});
  const Json error = {{"oneOf", {{{"type", "null"}}, reference("Error")}}};
  const Json outcome =
      object_schema({{"index", whole}, {"uuid", text}, {"changes", list_of(change)}, {"error", error}});
  all["PowerOutcome"] = object_schema({{"dry_run", flag}, {"gpus", list_of(outcome)}});
  all["PowerError"] = object_schema(
      {{"code", text}, {"message", text}, {"hint", text}, {"dry_run", flag, false}, {"gpus", list_of(outcome), false}});
  const Json of_gpu = object_schema({{"power_limit_mw", whole, false},
                                     {"persistence", flag, false},
                                     {"gpu_clocks_mhz", range, false},
                                     {"mem_clocks_mhz", range, false},
                                     {"compute_mode", whole, false},
                                     {"time_slice", whole, false}});
  const Json by_gpu = {{"type", "object"}, {"description", "by UUID"}, {"additionalProperties", of_gpu}};
  all["PowerLease"] = object_schema({{"id", text},
                                     {"gpus", list_of(text)},
                                     {"settings", by_gpu},
                                     {"saved", by_gpu},
                                     {"owner_uid", whole},
                                     {"holder_pid", whole},
                                     {"holder_start_time", whole},
                                     {"ttl_s", whole},
                                     {"ends_at_s", {{"type", "integer"}}},
                                     {"ending", flag},
                                     {"session", flag},
                                     {"paused", flag}});
}

// Adds the error, and the service's small replies.
void add_small_schemas(Json& all) {
  const Json text = {{"type", "string"}}, whole = {{"type", "integer"}, {"minimum", 0}};
  const Json maybe_whole = {{"type", {"integer", "null"}}, {"minimum", 0}};
  const auto said = [](const char* words) { return Json{{"type", "string"}, {"description", words}}; };
  all["Error"] = object_schema({{"code", said("one word, for programs")},
                                {"message", said("what was wrong, with the value")},
                                {"hint", said("what is accepted, or what to do; may be empty")}});
  all["Status"] = object_schema({{"status", text}});
  all["Nothing"] = object_schema({});
  all["Released"] = object_schema({{"released_s", whole}});
  all["Quota"] = object_schema({{"user", whole, false},
                                {"group", whole, false},
                                {"everyone", {{"type", "boolean"}}, false},
                                {"memory_bytes", maybe_whole},
                                {"compute_ratio", {{"type", {"number", "null"}}}},
                                {"shares", maybe_whole},
                                {"ttl_ns", maybe_whole},
                                {"weight", maybe_whole},
                                {"class", {{"type", {"string", "null"}}}}});
  all["ChannelClients"] = object_schema({{"clients", {{"type", "array"}, {"items", text}}}});
  const Json task =
      object_schema({{"id", whole}, {"kind", text}, {"state", text}, {"attempt", whole}, {"age_ms", whole}});
  all["ChannelClient"] = object_schema(
      {{"client", text}, {"streams", whole}, {"polls", whole}, {"tasks", {{"type", "array"}, {"items", task}}}});
  const Json leased = object_schema({{"id", whole},
                                     {"attempt", whole},
                                     {"kind", text},
                                     {"lease_ms", whole},
                                     {"expires_ms", whole},
                                     {"payload", {{"description", "what is asked, by kind: docs/channel.md"}}}});
  all["ChannelTasks"] = object_schema({{"tasks", {{"type", "array"}, {"items", leased}}}});
  all["ChannelLease"] = object_schema({{"lease_ms", whole}});
  all["ChannelSettled"] = object_schema({{"state", text}});
  all["Entry"] = object_schema({{"share", text},
                                {"runtime_dir", text},
                                {"directory", text},
                                {"uuids", {{"type", "array"}, {"items", text}}},
                                {"simulated_dir", text},
                                {"thread_percentage", whole},
                                {"variables", {{"type", "object"}, {"additionalProperties", text}}}});
  const Json pids = {{"type", "array"}, {"items", whole}};
  all["MpsGroup"] = object_schema({{"uuid", text},
                                   {"owner_uid", whole},
                                   {"users", text},
                                   {"daemon_pid", whole},
                                   {"state", text},
                                   {"percent", whole},
                                   {"shares", {{"type", "array"}, {"items", text}}},
                                   {"holders", pids},
                                   {"clients", pids},
                                   {"servers", whole},
                                   {"restarts", whole}});
  all["MpsClient"] = object_schema({{"client", {{"type", "boolean"}}}});
}

}  // namespace

std::string small_schemas() {
  Json all = Json::object();
  add_small_schemas(all);
  add_power_schemas(all);
  return all.dump();
}

}  // namespace headgate::api
