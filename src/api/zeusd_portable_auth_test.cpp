// zeusd's tests/auth.rs: what each token permits.
#include <gtest/gtest.h>

#include "api/zeusd_portable_test.hpp"

namespace headgate::api {
namespace {

using power::ApiGroup;

constexpr std::int64_t kFarEnd = 9'999'999'999;

std::string token(std::vector<ApiGroup> scopes, std::optional<std::int64_t> expires_s = kFarEnd,
                  const std::string& key = kPortableKey, const std::string& user = "testuser") {
  return *power::issue_token({.user = user, .scopes = std::move(scopes), .expires_s = expires_s}, key);
}

// A request with this token (if any) and the expected answer.
struct Row {
  const char* name;
  std::vector<ApiGroup> groups;
  bool signs;
  std::optional<std::string> token;
  std::string method, target;
  int status;
  std::string contains;  // in the body
};

const std::string kRead = "/gpu/get_power", kWhoami = "/auth/whoami";
const std::string kSetLimit = "/gpu/set_power_limit?gpu_ids=0&power_limit_mw=100000&block=true";
const std::string kBad = "not-a-valid-jwt";

std::vector<Row> rows() {
  const std::vector<ApiGroup> all = {ApiGroup::gpu_control, ApiGroup::gpu_read, ApiGroup::cpu_read};
  const std::vector<ApiGroup> only_cpu = {ApiGroup::cpu_read};
  const std::string reads = token({ApiGroup::gpu_read});
  return {
      // Always open.
      {"discover_no_auth_server", all, false, {}, "GET", "/discover", 200, R"("auth_required":false)"},
      {"discover_auth_server_without_token", all, true, {}, "GET", "/discover", 200, R"("auth_required":true)"},
      {"time_no_auth_server", all, false, {}, "GET", "/time", 200, ""},
      {"time_auth_server_without_token", all, true, {}, "GET", "/time", 200, ""},
      // Groups that are off give 404, whatever the token.
      {"disabled_group_no_auth_returns_404", only_cpu, false, {}, "GET", kRead, 404, ""},
      {"disabled_group_auth_no_token_returns_404", only_cpu, true, {}, "GET", kRead, 404, ""},
      {"disabled_group_auth_invalid_token_returns_404", only_cpu, true, kBad, "GET", kRead, 404, ""},
      {"disabled_group_auth_wrong_scope_returns_404", only_cpu, true, token({ApiGroup::cpu_read}), "GET", kRead, 404,
       ""},
      {"disabled_group_auth_correct_scope_returns_404", only_cpu, true, reads, "GET", kRead, 404, ""},
      // Without a key, tokens are ignored.
      {"enabled_group_no_auth_no_token", all, false, {}, "GET", kRead, 200, ""},
      {"enabled_group_no_auth_with_token", all, false, reads, "GET", kRead, 200, ""},
      // With a key, tokens are required.
      {"enabled_group_auth_no_token_returns_401", all, true, {}, "GET", kRead, 401, ""},
      {"enabled_group_auth_invalid_token_returns_401", all, true, kBad, "GET", kRead, 401, ""},
      {"enabled_group_auth_expired_token_returns_401", all, true, token({ApiGroup::gpu_read}, 1'000'000'000), "GET",
       kRead, 401, ""},
      {"enabled_group_auth_wrong_key_returns_401", all, true,
       token({ApiGroup::gpu_read}, kFarEnd, "another key of 32 and more bytes"), "GET", kRead, 401, ""},
      {"enabled_group_auth_wrong_scope_returns_403", all, true, reads, "POST", kSetLimit, 403, ""},
      {"enabled_group_auth_cross_device_scope_returns_403", all, true, reads, "GET", "/cpu/get_power", 403, ""},
      {"enabled_group_auth_correct_scope_returns_200", all, true, reads, "GET", kRead, 200, ""},
      {"enabled_group_auth_correct_scope_gpu_control", all, true, token({ApiGroup::gpu_control, ApiGroup::gpu_read}),
       "POST", kSetLimit, 200, ""},
      {"enabled_group_auth_correct_scope_cpu_read", all, true, token({ApiGroup::cpu_read}), "GET", "/cpu/get_power",
       200, ""},
      {"enabled_group_auth_no_expiry_token", all, true, token({ApiGroup::gpu_read}, {}), "GET", kRead, 200, ""},
      // /whoami.
      {"whoami_no_auth_server_returns_404", all, false, {}, "GET", kWhoami, 404, ""},
      {"whoami_auth_no_token_returns_401", all, true, {}, "GET", kWhoami, 401, ""},
      {"whoami_auth_invalid_token_returns_401", all, true, kBad, "GET", kWhoami, 401, ""},
      {"whoami_auth_valid_token", all, true,
       token({ApiGroup::gpu_read, ApiGroup::cpu_read}, kFarEnd, kPortableKey, "alice"), "GET", kWhoami, 200,
       R"({"sub":"alice","scopes":["gpu-read","cpu-read"],"exp":9999999999})"},
      {"whoami_auth_no_expiry_token", all, true, token({ApiGroup::gpu_control}, {}, kPortableKey, "bob"), "GET",
       kWhoami, 200, R"({"sub":"bob","scopes":["gpu-control"]})"},
  };
}

void check(const Row& row, const ZeusdBench& bench) {
  http::Fields headers;
  if (row.token) headers.push_back({"Authorization", "Bearer " + *row.token});
  const auto response = bench.ask(row.method, row.target, headers);
  EXPECT_EQ(response.status, row.status) << response.body;
  EXPECT_TRUE(response.body.contains(row.contains)) << response.body;
}

}  // namespace

std::vector<PortableCase> portable_auth_cases() {
  std::vector<PortableCase> cases;
  for (const Row& row : rows())
    cases.push_back({row.name, [row](ZeusdBench& bench) { check(row, bench); }, row.groups, row.signs});
  return cases;
}

}  // namespace headgate::api
