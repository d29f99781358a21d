#include "api/openapi.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "api/power_routes.hpp"
#include "api/share_request_json.hpp"
#include "api/test_reply.hpp"
#include "http/message.hpp"
#include "snapshot/json.hpp"

namespace headgate::api {
namespace {

using Json = nlohmann::ordered_json;

const std::string& document() {
  static const std::string text = openapi("1.2.3");
  return text;
}

snapshot::Snapshot snapshot() {
  snapshot::Snapshot s;
  s.gpus.resize(2);
  s.gpus[0].xids = {{79, 1}};
  s.gpus[0].busy_ratio = 0.5;
  s.gpus[0].mig_instances.resize(1);
  s.gpus[0].nvlink_errors = 1;
  s.node.level = "hook";
  s.shares.resize(1);
  s.shares[0].state = "ok";
  s.shares[0].level = "hook";
  s.shares[0].devices.resize(2);
  s.shares[0].devices[0].last_refusal.emplace();
  s.shares[0].devices[0].held_ratio = 1;
  s.shares[0].devices[0].launch_delays.resize(1);
  s.shares[0].devices[0].hook_errors.resize(1);
  s.processes.resize(1);
  s.processes[0].level = "observe";
  s.processes[0].devices.resize(1);
  return s;
}

TEST(OpenApi, RowsOfTheTableDoNotHideEachOther) {
  std::set<std::string> ids, places;
  for (const Route& route : routes()) {
    EXPECT_TRUE(ids.emplace(route.id).second) << route.id;
    EXPECT_TRUE(places.insert(std::string(route.method) + " " + std::string(route.path)).second) << route.path;
    EXPECT_FALSE(route.replies.empty()) << route.id;
  }
}

TEST(OpenApi, OnlySegmentsInBracesAreParameters) {
  for (const Route& route : routes()) {
    std::size_t in_path = 0;
    for (const Parameter& parameter : route.parameters) {
      const bool named = route.path.contains("{" + std::string(parameter.name) + "}");
      EXPECT_EQ(named, parameter.in == Place::path) << route.id << " " << parameter.name;
      in_path += named ? 1 : 0;
    }
    EXPECT_EQ(in_path, static_cast<std::size_t>(std::ranges::count(route.path, '{'))) << route.id;
  }
}

void collect_references(const Json& node, std::vector<std::string>& found) {
  for (const auto& [key, value] : node.items()) {
    if (key == "$ref") found.push_back(value.get<std::string>());
    else if (value.is_structured()) collect_references(value, found);
  }
}

TEST(OpenApi, EveryReferenceLeadsToASchema) {
  const Json json = Json::parse(document());
  std::vector<std::string> found;
  collect_references(json, found);
  EXPECT_GT(found.size(), routes().size());
  for (const auto& reference : found) EXPECT_TRUE(json.contains(Json::json_pointer(reference.substr(1)))) << reference;
  EXPECT_EQ(json.at("info").at("version"), "1.2.3");
}

TEST(OpenApi, SnapshotsFitTheDocumentedSchema) {
  const auto s = snapshot();
  EXPECT_EQ(objection(document(), "getSnapshot", 200, snapshot::to_json(s)), "");
  EXPECT_EQ(objection(document(), "getNode", 200, snapshot::to_json(s.node)), "");
  EXPECT_EQ(objection(document(), "listGpus", 200, snapshot::to_json(s.gpus)), "");
  EXPECT_EQ(objection(document(), "getGpu", 200, snapshot::to_json(s.gpus[1])), "");
  EXPECT_EQ(objection(document(), "listShares", 200, snapshot::to_json(s.shares)), "");
  EXPECT_EQ(objection(document(), "createShare", 201, snapshot::to_json(s.shares[0])), "");
  EXPECT_EQ(objection(document(), "listProcesses", 200, snapshot::to_json(s.processes)), "");
  std::vector<snapshot::Event> events(1);
  events[0].severity = "info";
  EXPECT_EQ(objection(document(), "listEvents", 200, snapshot::to_json(events)), "");
  tenancy::Quota of_a_user, of_all;
  of_a_user.memory_bytes = 1;
  of_all.subject = tenancy::Quota::Subject::every_user;
  of_all.compute_ppm = 1;
  of_all.shares = 2;
  node::Entry entry;
  entry.uuids = {"GPU-1"};
  EXPECT_EQ(objection(document(), "listQuotas", 200, "[" + to_json(of_a_user) + "," + to_json(of_all) + "]"), "");
  EXPECT_EQ(objection(document(), "setQuota", 200, to_json(of_all)), "");
  EXPECT_EQ(objection(document(), "enterShare", 200, to_json(entry)), "");
  const auto refusal = http::error_response({ErrorCode::no_capacity, "it does not fit", "ask for less"});
  EXPECT_EQ(objection(document(), "createShare", refusal.status, refusal.body), "");
  EXPECT_EQ(objection(document(), "getGpu", 431, http::error_response(431, "too_large", "a", "").body), "");
}

TEST(OpenApi, PowerRepliesFitTheDocument) {
  snapshot::Snapshot s = snapshot();
  s.gpus[0].uuid = "GPU-1";
  s.gpus[0].power_limit_mw = 350'000;
  s.gpus[0].throttle_reasons = {"power cap"};
  power::Lease lease{.id = "ab", .wanted = {}, .saved = {}};
  lease.wanted["GPU-1"].power_limit_mw = 200'000;
  lease.wanted["GPU-1"].gpu_clocks = power::ClockRange{210, 900};
  lease.saved["GPU-1"].gpu_clocks = power::ClockRange{};
  const std::vector<GpuPower> gpus = {{.gpu = &s.gpus[0], .gpu_clocks = {210, 900}, .mem_clocks = {}, .waiting = 1},
                                      {.gpu = &s.gpus[1], .gpu_clocks = {}, .mem_clocks = {}, .waiting = 0}};
  EXPECT_EQ(objection(document(), "getPower", 200, power_json(gpus, {lease}, "report", "site")), "");
  EXPECT_EQ(objection(document(), "createPowerLease", 201, power::lease_json(lease)), "");
  EXPECT_EQ(objection(document(), "listPowerLeases", 200, power::leases_json({lease})), "");
  power::Profile profile{.name = "site", .settings = {}, .origin = "c.toml:1"};
  profile.settings.budget_mw = 500'000;
  profile.settings.weights = {1, 2};
  EXPECT_EQ(objection(document(), "listPowerProfiles", 200, profiles_json({profile})), "");
  const std::vector<power::GpuOutcome> half = {
      {.index = 0, .uuid = "GPU-1", .changes = {{"power limit", "350 W", "200 W"}}, .error = {}},
      {.index = 1, .uuid = "GPU-2", .changes = {}, .error = Error{ErrorCode::unreachable, "it is lost", ""}}};
  const auto whole = outcomes_response({half[0]}, false), failed = outcomes_response(half, false);
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(objection(document(), "setPower", whole.status, whole.body), "");
  EXPECT_EQ(failed.status, 503) << "the worst of all";
  EXPECT_EQ(objection(document(), "setPower", failed.status, failed.body), "");
  EXPECT_EQ(http::error_of(failed.status, failed.body).message, "it is lost");
  const auto refused = http::error_response({ErrorCode::usage, "out of range", "accepted: 100 W to 350 W"});
  EXPECT_EQ(objection(document(), "resetPower", refused.status, refused.body), "");
}

TEST(OpenApi, AcceptedPowerRequestsFitTheDocument) {
  const std::string body =
      R"({"gpus":[0,"GPU-1"],"settings":{"power_limit":"80%","gpu_clocks_mhz":[0,0],"compute_mode":3,)"
      R"("persistence":true},"ttl_s":5,"dry_run":true})";
  EXPECT_EQ(request_objection(document(), "createPowerLease", body), "");
  EXPECT_TRUE(power::parse_power_request(power::RequestKind::lease, body));
  EXPECT_EQ(request_objection(document(), "setPower", R"({"gpus":"all","profile":"night"})"), "");
  EXPECT_NE(request_objection(document(), "setPower", R"({"gpus":"all","profile":"night","ttl_s":5})"), "");
  EXPECT_NE(request_objection(document(), "resetPower", "{}"), "");
}

TEST(OpenApi, AReplyThatBreaksTheSchemaIsNamedByItsPath) {
  auto gpu = Json::parse(snapshot::to_json(snapshot().gpus[0]));
  const auto wrong = [&](auto&& change) {
    auto changed = gpu;
    change(changed);
    return objection(document(), "getGpu", 200, changed.dump());
  };
  EXPECT_EQ(wrong([](auto& g) { g["index"] = "0"; }), "body.index: is no \"integer\": \"0\"");
  EXPECT_EQ(wrong([](auto& g) { g["index"] = -1; }), "body.index: is less than 0");
  EXPECT_EQ(wrong([](auto& g) { g["mig"] = 1; }), "body.mig: is no [\"boolean\",\"null\"]: 1");
  EXPECT_EQ(wrong([](auto& g) { g["xids"][0].erase("xid"); }), "body.xids[0]: lacks \"xid\"");
  EXPECT_EQ(wrong([](auto& g) { g.erase("uuid"); }), "body: lacks \"uuid\"");
  EXPECT_EQ(wrong([](auto& g) { g["more"] = 1; }), "body: has the unknown more");
  EXPECT_EQ(objection(document(), "getGpu", 200, "{"), "the body is no JSON: {");
  EXPECT_NE(objection(document(), "getGpu", 404, R"({"message":"no"})"), "");
  EXPECT_NE(objection(document(), "getGpu", 200, "x", "text/plain"), "");
}

TEST(OpenApi, EnumeratedValuesAreListed) {
  auto s = snapshot();
  s.shares[0].state = "paused and draining";
  s.shares[0].level = "hook+container";
  EXPECT_EQ(objection(document(), "createShare", 201, snapshot::to_json(s.shares[0])), "");
  s.shares[0].state = "asleep";
  EXPECT_TRUE(
      objection(document(), "createShare", 201, snapshot::to_json(s.shares[0])).starts_with("body.state: is none of"));
  std::vector<snapshot::Event> events(1);
  events[0].severity = "fatal";
  EXPECT_TRUE(
      objection(document(), "listEvents", 200, snapshot::to_json(events)).starts_with("body[0].severity: is none of"));
  s.node.level = "wall";
  EXPECT_TRUE(objection(document(), "getNode", 200, snapshot::to_json(s.node)).starts_with("body.level: is none of"));
}

// Returns a value that the document allows for the field.
std::string example_of(const BodyField& field) {
  if (field.name == "user" || field.name == "group") return "\"root\"";
  if (field.name == "mem") return "\"1GiB\"";
  if (field.name == "compute") return "\"50%\"";
  if (field.name == "class") return "\"normal\"";
  if (field.name == "ttl") return "\"2h\"";
  switch (field.type) {
    case FieldType::flag: return "true";
    case FieldType::texts: return "[\"root\"]";
    case FieldType::text_or_whole:
    case FieldType::whole: return "4";
    case FieldType::gpus: return "\"all\"";
    case FieldType::power_settings: return R"({"persistence":true})";
    case FieldType::text: break;
  }
  return "\"x\"";
}

TEST(OpenApi, EachDocumentedBodyFieldIsRead) {
  for (const BodyField& field : fields(BodyKind::share_request)) {
    if (field.required) continue;
    const std::string body = "{\"name\":\"a\",\"" + std::string(field.name) + "\":" + example_of(field) + "}";
    EXPECT_EQ(request_objection(document(), "createShare", body), "") << body;
    const auto order = share_request_from(body);
    ASSERT_TRUE(order) << body << ": " << order.error().message;
    EXPECT_NE(*order, *share_request_from(R"({"name":"a"})")) << body << " changes nothing";
  }
  for (const BodyField& field : fields(BodyKind::quota)) {
    const bool says_whom = field.name == "user" || field.name == "group" || field.name == "everyone";
    const std::string body = "{" + std::string(says_whom ? "\"shares\":4," : "\"user\":\"root\",") + "\"" +
                             std::string(field.name) + "\":" + example_of(field) + "}";
    EXPECT_EQ(request_objection(document(), "setQuota", body), "") << body;
    EXPECT_EQ(request_objection(document(), "changeQuota", body), "") << body;
    EXPECT_TRUE(quota_change_from(body)) << body;
  }
}

TEST(OpenApi, UndocumentedBodyFieldsAreRefused) {
  for (const std::string body :
       {R"({"name":"a","memory":"8GiB"})", R"({"name":7})", "[]", R"({"name":"a","users":"bob"})",
        R"({"name":"a","overcommit":"yes"})", R"({"name":"a","weight":-1})"}) {
    EXPECT_NE(request_objection(document(), "createShare", body), "") << body;
    EXPECT_FALSE(share_request_from(body)) << body;
  }
}

}  // namespace
}  // namespace headgate::api
