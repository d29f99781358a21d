// Tokens and API groups of the zeusd API.
#include <gtest/gtest.h>

#include "api/test_zeusd.hpp"
#include "base/now.hpp"

namespace headgate::api {
namespace {

using nlohmann::json;
using power::ApiGroup;

const std::string kKey = "the signing key\n";

std::int64_t now_s() { return static_cast<std::int64_t>(unix_now_ns() / 1'000'000'000); }

http::Fields bearing(const std::string& token) { return {{"Authorization", "Bearer " + token}}; }

http::Fields token_for(std::vector<ApiGroup> scopes, std::optional<std::int64_t> expires_s = {},
                       const std::string& key = kKey) {
  return bearing(*power::issue_token({.user = "alice", .scopes = std::move(scopes), .expires_s = expires_s}, key));
}

ZeusdOptions locked(std::vector<ApiGroup> groups) {
  ZeusdOptions options = ZeusdBench::all_groups();
  options.groups = std::move(groups);
  options.key = kKey;
  return options;
}

const std::vector<ApiGroup> kAll = {ApiGroup::gpu_control, ApiGroup::gpu_read, ApiGroup::cpu_read};
const std::string kSet = "/gpu/set_power_limit?gpu_ids=0&power_limit_mw=200000&block=true";

class ZeusdAuth : public testing::TestWithParam<bool> {
 protected:
  ZeusdAuth() : bench(locked(kAll)) { bench.over_tcp = GetParam(); }
  ZeusdBench bench;
};
INSTANTIATE_TEST_SUITE_P(Over, ZeusdAuth, testing::Bool(),
                         [](const auto& over) { return over.param ? "Tcp" : "UnixSocket"; });

TEST_P(ZeusdAuth, DiscoveryAndTimeNeedNoToken) {
  EXPECT_EQ(bench.json(bench.get("/discover"))["auth_required"], true);
  EXPECT_EQ(bench.get("/time").status, 200);
}

TEST_P(ZeusdAuth, OtherRequestsNeedAToken) {
  for (const char* target :
       {"/gpu/get_power", "/gpu/stream_power", "/cpu/get_power", "/cpu/stream_power", "/auth/whoami", "/nothing"}) {
    const auto response = bench.get(target);
    EXPECT_EQ(response.status, 401) << target;
    ASSERT_NE(http::find(response.headers, "WWW-Authenticate"), nullptr) << target;
    EXPECT_EQ(*http::find(response.headers, "WWW-Authenticate"), "Bearer realm=\"zeusd\"");
    EXPECT_TRUE(bench.json(response).contains("error")) << response.body;
  }
  EXPECT_EQ(bench.post(kSet).status, 401);
  EXPECT_TRUE(bench.gpus[0].written().empty());
}

TEST_P(ZeusdAuth, ATokenOpensItsScopesOnly) {
  const std::pair<ApiGroup, std::vector<int>> expected[] = {{ApiGroup::gpu_control, {200, 403, 403}},
                                                            {ApiGroup::gpu_read, {403, 200, 403}},
                                                            {ApiGroup::cpu_read, {403, 403, 200}}};
  for (const auto& [scope, statuses] : expected) {
    const auto token = token_for({scope});
    EXPECT_EQ(bench.post(kSet, token).status, statuses[0]);
    EXPECT_EQ(bench.post("/gpu/reset_locked_clocks?gpu_ids=0&block=true", token).status, statuses[0]);
    EXPECT_EQ(bench.get("/gpu/get_power", token).status, statuses[1]);
    EXPECT_EQ(bench.get("/cpu/get_power", token).status, statuses[2]);
    EXPECT_EQ(bench.get("/auth/whoami", token).status, 200);
  }
}

TEST_P(ZeusdAuth, ARefusalNamesTheUserTheScopeAndWhatItHolds) {
  const auto response = bench.post(kSet, token_for({ApiGroup::gpu_read, ApiGroup::cpu_read}));
  EXPECT_EQ(response.status, 403);
  EXPECT_EQ(bench.json(response)["error"], "user 'alice' needs scope gpu-control and has [gpu-read, cpu-read]");
  EXPECT_TRUE(bench.gpus[0].written().empty());
}

TEST_P(ZeusdAuth, WhoamiReturnsTheClaims) {
  EXPECT_EQ(bench.json(bench.get("/auth/whoami", token_for({ApiGroup::gpu_read}))),
            json::parse(R"({"sub":"alice","scopes":["gpu-read"]})"));
  EXPECT_EQ(bench.json(bench.get("/auth/whoami", token_for({}, now_s() + 1000)))["exp"], now_s() + 1000);
}

TEST_P(ZeusdAuth, ABadTokenIs401) {
  const std::string good = token_for(kAll)[0].value;
  const http::Fields bad[] = {
      bearing(""),
      bearing("nonsense"),
      bearing(good.substr(7) + "x"),
      token_for(kAll, now_s() - 120),
      token_for(kAll, {}, "the signing key"),
      {{"Authorization", "bearer " + good.substr(7)}},
      {{"Authorization", "Basic YWxpY2U6"}},
      bearing("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwic2NvcGVzIjpbXX0."),
  };
  for (const http::Fields& headers : bad)
    EXPECT_EQ(bench.get("/gpu/get_power", headers).status, 401) << headers[0].value;
  EXPECT_EQ(bench.get("/gpu/get_power", token_for(kAll, now_s() - 30)).status, 200) << "a minute of leeway";
}

TEST_P(ZeusdAuth, AnUnknownPathWithATokenIsNotFound) { EXPECT_EQ(bench.get("/nothing", token_for({})).status, 404); }

TEST(ZeusdGroups, ADisabledGroupIsNotFoundEvenWithoutAToken) {
  ZeusdBench bench(locked({ApiGroup::gpu_read}));
  const auto response = bench.post(kSet);
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(bench.json(response)["error"], "API group gpu-control is not enabled");
  EXPECT_EQ(bench.get("/cpu/get_power", token_for(kAll)).status, 404);
  EXPECT_EQ(bench.get("/gpu/get_power", token_for(kAll)).status, 200);
  EXPECT_EQ(bench.json(bench.get("/discover"))["enabled_api_groups"], json::parse(R"(["gpu-read"])"));
}

TEST(ZeusdGroups, RequestsWithoutAKeyNeedNoToken) {
  ZeusdBench bench;
  const auto response = bench.get("/auth/whoami");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(bench.json(response)["error"], "authentication is off");
  EXPECT_EQ(bench.post(kSet, token_for({}, {}, "another key")).status, 200) << "a token is passed over";
}

}  // namespace
}  // namespace headgate::api
