// Schemas of the OpenAPI document, besides those of snapshot structs and of requests.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "api/openapi.hpp"
#include "power/request.hpp"

namespace headgate::api {
namespace {

using Json = nlohmann::ordered_json;
using Types = std::map<std::string_view, Json>;

// Returns the schema of a type: text, flag, whole (from 0), integer, number, one of `more`, or another schema's name.
// "[]" behind it: a list of them; "|null" at the end: may be null.
Json type_schema_of(std::string_view type, const Types& more) {
  constexpr std::string_view kNull = "|null", kList = "[]";
  if (type.ends_with(kNull)) {
    Json one = type_schema_of(type.substr(0, type.size() - kNull.size()), more);
    if (!one.contains("type")) return {{"oneOf", {{{"type", "null"}}, one}}};
    one["type"] = {one["type"], "null"};
    return one;
  }
  if (type.ends_with(kList))
    return {{"type", "array"}, {"items", type_schema_of(type.substr(0, type.size() - kList.size()), more)}};
  if (type == "text") return {{"type", "string"}};
  if (type == "flag") return {{"type", "boolean"}};
  if (type == "whole") return {{"type", "integer"}, {"minimum", 0}};
  if (type == "integer" || type == "number") return {{"type", type}};
  if (const auto found = more.find(type); found != more.end()) return found->second;
  return {{"$ref", "#/components/schemas/" + std::string(type)}};
}

// Returns the schema of an object with these fields: "NAME:TYPE ...". A '?' behind the name: the field may be missing.
Json object_schema(std::string_view fields, const Types& more = {}) {
  Json schema = {
      {"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}, {"additionalProperties", false}};
  while (!fields.empty()) {
    const std::string_view field = fields.substr(0, fields.find(' '));
    fields.remove_prefix(std::min(fields.size(), field.size() + 1));
    std::string_view name = field.substr(0, field.find(':'));
    const Json type = type_schema_of(field.substr(name.size() + 1), more);
    const bool required = !name.ends_with('?');
    if (!required) name.remove_suffix(1);
    schema["properties"][name] = type;
    if (required) schema["required"].push_back(name);
  }
  return schema;
}

Json described(std::string_view type, const std::string& words) {
  Json schema = type_schema_of(type, {});
  schema["description"] = words;
  return schema;
}
Json accepted(std::string_view type, std::string_view what) {
  return described(type, "accepted: " + std::string(what));
}

// The replies of /v1/power.
void add_power_schemas(Json& all) {
  const Json range = accepted("whole[]", "[least, greatest]; [0, 0]: not locked");
  Json mode = accepted("whole", config::kAcceptedComputeMode);
  mode["type"] = {"string", "integer"};
  all["PowerSettings"] = object_schema(
      "power_limit?:watts power_limit_mw?:whole gpu_clocks?:clocks gpu_clocks_mhz?:range mem_clocks?:clocks "
      "mem_clocks_mhz?:range persistence?:flag compute_mode?:mode time_slice?:slice budget?:budget weights?:weights",
      {{"watts", accepted("text", config::kAcceptedPowerLimit)},
       {"clocks", accepted("text", config::kAcceptedClocks)},
       {"range", range},
       {"mode", mode},
       {"slice", accepted("text", config::kAcceptedTimeSlice)},
       {"budget", accepted("text", "watts of all named GPUs together: 500W; not beside power_limit")},
       {"weights", accepted("whole[]", "1 to 1000 for each GPU: the budget's parts")}});
  all["PowerProfile"] = object_schema("name:text settings:PowerSettings origin:text");
  const Json lease = object_schema(
      "id:text controls:text[] holder:text owner_uid:whole holder_pid:whole ttl_s:whole ends_at_s:integer paused:flag");
  const Json gpu = object_schema(
      "index:whole uuid:text model:text power_mw:whole|null energy_mj:whole|null requested_limit_mw:whole|null "
      "enforced_limit_mw:whole|null min_limit_mw:whole|null max_limit_mw:whole|null default_limit_mw:whole|null "
      "persistence:flag|null compute_mode:text gpu_clocks_mhz:whole[]|null mem_clocks_mhz:whole[]|null "
      "sm_clock_mhz:whole|null memory_clock_mhz:whole|null throttle_reasons:text[] leases:lease[] waiting:whole",
      {{"lease", lease}});
  all["Power"] = object_schema("gpus:gpu[] drift:text at_start:text", {{"gpu", gpu}});
  const Json change = object_schema("control:text from:text to:text");
  const Json outcome = object_schema("index:whole uuid:text changes:change[] error:Error|null", {{"change", change}});
  all["PowerOutcome"] = object_schema("dry_run:flag gpus:outcome[]", {{"outcome", outcome}});
  all["PowerError"] =
      object_schema("code:text message:text hint:text dry_run?:flag gpus?:outcome[]", {{"outcome", outcome}});
  const Json of_gpu = object_schema(
      "power_limit_mw?:whole persistence?:flag gpu_clocks_mhz?:whole[] mem_clocks_mhz?:whole[] compute_mode?:whole "
      "time_slice?:whole");
  all["PowerLease"] = object_schema(
      "id:text gpus:text[] settings:by_gpu saved:by_gpu owner_uid:whole holder_pid:whole holder_start_time:whole "
      "ttl_s:whole ends_at_s:integer ending:flag session:flag paused:flag",
      {{"by_gpu", {{"type", "object"}, {"description", "by UUID"}, {"additionalProperties", of_gpu}}}});
}

// Adds the error, and the service's small replies.
void add_small_schemas(Json& all) {
  all["Error"] = object_schema("code:code message:message hint:hint",
                               {{"code", described("text", "one word, for programs")},
                                {"message", described("text", "what was wrong, with the value")},
                                {"hint", described("text", "what is accepted, or what to do; may be empty")}});
  all["Status"] = object_schema("status:text");
  all["Nothing"] = object_schema("");
  all["Released"] = object_schema("released_s:whole");
  all["Quota"] = object_schema(
      "user?:whole group?:whole everyone?:flag memory_bytes:whole|null compute_ratio:number|null shares:whole|null "
      "ttl_ns:whole|null weight:whole|null class:text|null");
  all["ChannelClients"] = object_schema("clients:text[]");
  const Json task = object_schema("id:whole kind:text state:text attempt:whole age_ms:whole");
  all["ChannelClient"] = object_schema("client:text streams:whole polls:whole tasks:task[]", {{"task", task}});
  const Json leased = object_schema("id:whole attempt:whole kind:text lease_ms:whole expires_ms:whole payload:payload",
                                    {{"payload", {{"description", "what is asked, by kind: docs/channel.md"}}}});
  all["ChannelTasks"] = object_schema("tasks:leased[]", {{"leased", leased}});
  all["ChannelLease"] = object_schema("lease_ms:whole");
  all["ChannelSettled"] = object_schema("state:text");
  all["Entry"] = object_schema(
      "share:text runtime_dir:text directory:text uuids:text[] simulated_dir:text thread_percentage:whole "
      "variables:variables waits_for:text",
      {{"variables", {{"type", "object"}, {"additionalProperties", {{"type", "string"}}}}}});
  all["MpsGroup"] = object_schema(
      "uuid:text owner_uid:whole users:text daemon_pid:whole state:text percent:whole shares:text[] holders:whole[] "
      "clients:whole[] servers:whole restarts:whole");
  all["MpsClient"] = object_schema("client:flag");
}

}  // namespace

std::string small_schemas() {
  Json all = Json::object();
  add_small_schemas(all);
  add_power_schemas(all);
  return all.dump();
}

}  // namespace headgate::api
