#include "api/share_request_json.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <type_traits>

namespace headgate::api {
namespace {

TEST(ShareRequestJson, EveryKeyOfAShareIsAccepted) {
  const auto order = share_request_from(
      R"({"name":"a","gpu":"0","mem":"8GiB","host_mem":"1GiB","compute":"50%","burst":"80%","weight":200,"class":"latency",
          "ttl":"8h","idle_notice":"2h","admit":"ask","fail_policy":"closed","overcommit":true,"everyone":false,
          "users":["bob","7"],"groups":[]})");
  ASSERT_TRUE(order) << order.error().message;
  EXPECT_EQ(order->mem, "8GiB");
  EXPECT_EQ(order->weight, "200");
  EXPECT_EQ(order->priority_class, "latency");
  EXPECT_EQ(order->overcommit, true);
  EXPECT_EQ(share_request_from(R"({"over_sell":true})"), share_request_from(R"({"overcommit":true})"))
      << "its former name";
  EXPECT_EQ(order->users, (std::vector<std::string>{"bob", "7"}));
  EXPECT_EQ(share_request_from(R"({"mem":null})"), node::ShareRequest{});
}

// The table is the only list of attributes: one that it gains is read without a line here.
TEST(ShareRequestJson, ReadsEachAttributeOfTheTableIntoItsField) {
  node::ShareRequest one;
  snapshot::each_attribute(one, [](const snapshot::ShareAttribute& attribute, auto& field) {
    std::string value = "true";
    if constexpr (std::is_same_v<decltype(field), snapshot::ShareRequest::Text&>) value = "\"x\"", field = "x";
    else if constexpr (std::is_same_v<decltype(field), snapshot::ShareRequest::Names&>)
      value = "[\"x\"]", field = {{"x"}};
    else field = true;
    node::ShareRequest wanted;
    snapshot::each_attribute(wanted, [&](const snapshot::ShareAttribute& other, auto& own) {
      if constexpr (std::is_same_v<decltype(own), decltype(field)>)
        if (other.key == attribute.key) own = field;
    });
    EXPECT_NE(wanted, node::ShareRequest{}) << attribute.key;
    EXPECT_EQ(share_request_from("{\"" + std::string(attribute.key) + "\":" + value + "}"), wanted) << attribute.key;
  });
}

TEST(ShareRequestJson, AcceptsAChangeForEachOfSeveralShares) {
  const auto orders = share_requests_from(R"({"a":{"compute":"80%"},"b":{"compute":"20%","mem":"1GiB"}})");
  ASSERT_TRUE(orders) << orders.error().message;
  ASSERT_EQ(orders->size(), 2u);
  EXPECT_EQ(orders->at(0).first, "a");
  EXPECT_EQ(orders->at(0).second.compute, "80%");
  EXPECT_EQ(orders->at(1).second.mem, "1GiB");
  EXPECT_EQ(share_requests_from("{}").error().message, "no share was named");
  EXPECT_EQ(share_requests_from(R"({"a":"80%"})").error().message, "a = \"80%\" is not understood");
  EXPECT_EQ(share_requests_from(R"({"a":{}})").error().message, "nothing to change of the share 'a' was named");
  EXPECT_EQ(share_requests_from(R"({"a":{"part":"80%"}})").error().message, "unknown key 'part'");
}

TEST(ShareRequestJson, AMisspeltLimitIsAnErrorAndNotNoLimit) {
  const struct {
    const char *body, *message;
  } cases[] = {
      {"", "the body is no JSON object: "},
      {"[]", "the body is no JSON object: []"},
      {R"({"memory":"8GiB"})", "unknown key 'memory'"},
      {R"({"mem":8})", "mem = 8 is not understood"},
      {R"({"overcommit":"yes"})", "overcommit = \"yes\" is not understood"},
      {R"({"over_sell":"yes"})", "over_sell = \"yes\" is not understood"},
      {R"({"users":"bob"})", "users = \"bob\" is not understood"},
      {R"({"users":[1]})", "users = [1] is not understood"},
      {R"({"weight":-1})", "weight = -1 is not understood"},
      {"{\"a\\u001b[2J\":1}", "unknown key 'a?[2J'"},
  };
  for (const auto& [body, message] : cases) {
    const auto order = share_request_from(body);
    ASSERT_FALSE(order) << body;
    EXPECT_EQ(order.error().message, message);
    EXPECT_FALSE(order.error().hint.empty());
  }
}

TEST(ShareRequestJson, ANumberInsteadOfATextIsRefusedWithAnExample) {
  EXPECT_NE(share_request_from(R"({"mem":8})").error().hint.find("GiB"), std::string::npos);
  EXPECT_EQ(share_request_from(R"({"ttl":3600})").error().hint, "accepted: a text: 30s, 5m, 2h, 7d or none");
  EXPECT_NE(quota_change_from(R"({"user":"root","mem":8})").error().hint.find("24GiB"), std::string::npos);
}

TEST(ShareRequestJson, AMillionBracketsDoNotOverflowTheStack) {
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  for (const char* key : {"mem", "overcommit", "users"}) {
    const auto order = share_request_from("{\"" + std::string(key) + "\":" + deep + "}");
    ASSERT_FALSE(order);
    EXPECT_EQ(order.error().message, "the body has more than 2048 keys and values");
    EXPECT_EQ(share_request_from("{\"" + std::string(key) + "\":[[[1]]]}").error().message,
              std::string(key) + " = a nested array is not understood");
  }
  EXPECT_FALSE(quota_change_from("{\"mem\":" + deep + "}"));
}

// Such a body once blocked the loop for half a minute; other requests waited, and programs at the tenant sockets ran as
// if there were no daemon. Measured in CPU time, which a loaded machine does not lengthen.
TEST(ShareRequestJson, ABodyFullOfKeysDoesNotBlockTheLoop) {
  std::string keys = "{", names = R"({"name":"a","users":[)";
  for (int i = 0; i < 80'000; ++i) {
    keys += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
    names += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\"";
  }
  const std::clock_t began = std::clock();
  for (const std::string& body :
       {keys + "}", names + "]}", std::string(1 << 20, '['), "[" + std::string(1 << 20, ',')}) {
    EXPECT_FALSE(share_request_from(body));
    EXPECT_FALSE(quota_change_from(body));
    EXPECT_FALSE(policy_change_from(body));
  }
  EXPECT_LT(static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC, 2.0);
  std::string most = R"({"name":"a")";
  for (const char* key : {"users", "groups"}) {
    most += std::string(",\"") + key + "\":[";
    for (int i = 0; i < 256; ++i) most += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\"";
    most += "]";
  }
  EXPECT_EQ(share_request_from(most + "}").value().users->size(), 256u);
}

TEST(ShareRequestJson, AQuotaNamesItsSubjectAndLimits) {
  const auto change = quota_change_from(
      R"({"user":"root","mem":"24GiB","compute":"200%","shares":4,"ttl":"8h","weight":"200","class":"latency"})");
  ASSERT_TRUE(change) << change.error().message;
  const tenancy::Quota quota = tenancy::changed({}, *change);
  EXPECT_EQ(quota.id, 0u);
  EXPECT_EQ(quota.memory_bytes, 24ull << 30);
  EXPECT_EQ(quota.compute_ppm, 2'000'000u);
  EXPECT_EQ(to_json(quota), R"({"user":0,"memory_bytes":25769803776,"compute_ratio":2.0,"shares":4,)"
                            R"("ttl_ns":28800000000000,"weight":200,"class":"latency"})");
  const auto message = [](const char* body) { return quota_change_from(body).error().message; };
  EXPECT_EQ(message(R"({"mem":"1GiB"})"), "the quota names no user or group");
  EXPECT_EQ(message(R"({"user":"root","everyone":true})"), "the quota is for more than one");
  EXPECT_EQ(message(R"({"user":"no-such-user"})"), "user = \"no-such-user\" is not understood");
  EXPECT_EQ(message(R"({"everyone":true,"compute":"half"})"), "compute = \"half\" is not understood");
  EXPECT_EQ(message(R"({"everyone":true,"weight":1001})"), "weight = 1001 is out of range");
  EXPECT_EQ(message(R"({"everyone":true,"weight":"0"})"), "weight = \"0\" is not understood");
  EXPECT_EQ(message(R"({"everyone":true,"class":"best"})"), "class = \"best\" is not understood");
}

TEST(ShareRequestJson, AQuotaChangeAffectsOnlyTheKeysItNames) {
  tenancy::Quota before;
  before.id = 3001;
  before.memory_bytes = 4ull << 30;
  before.compute_ppm = 100'000;
  before.shares = 3;
  before.ttl = std::chrono::hours(1);
  before.weight = 200;
  before.highest_class = tenancy::Class::latency;
  tenancy::Quota expected = before;
  expected.shares = 4;
  EXPECT_EQ(tenancy::changed(before, *quota_change_from(R"({"user":3001,"shares":4})")), expected);
  const auto nothing = quota_change_from(
      R"({"user":3001,"mem":"none","compute":"none","shares":"none","ttl":"none","weight":"none","class":"none"})");
  ASSERT_TRUE(nothing) << nothing.error().message;
  EXPECT_TRUE(tenancy::bounds_nothing(tenancy::changed(before, *nothing)));
  EXPECT_EQ(quota_change_from(R"({"user":3001})").error(),
            (Error{ErrorCode::usage, "the quota names no limit",
                   "name mem, compute, shares, ttl, weight or class; none takes one back"}));
}

TEST(ShareRequestJson, ANumberOutOfRangeIsRefusedForEachQuota) {
  const struct {
    const char *body, *message, *hint;
  } cases[] = {
      {R"({"user":4294967297})", "user = 4294967297 is out of range", "accepted: a whole number of 0 to 4294967294"},
      {R"({"user":4294967295})", "user = 4294967295 is out of range", "accepted: a whole number of 0 to 4294967294"},
      {R"({"user":1.5})", "user = 1.5 is out of range", "accepted: a whole number of 0 to 4294967294"},
      {R"({"group":-1})", "group = -1 is out of range", "accepted: a whole number of 0 to 4294967294"},
      {R"({"everyone":true,"shares":4294967296})", "shares = 4294967296 is out of range",
       "accepted: a whole number of 0 to 4294967295"},
      {R"({"everyone":true,"shares":"four"})", "shares = \"four\" is not understood",
       "accepted: a whole number of 0 to 4294967295, or none"},
      {R"({"everyone":true,"ttl":"4294967295d"})", "ttl '4294967295d' is too long",
       "accepted: at most 36500d, which is a hundred years"},
      {R"({"everyone":true,"ttl":"36501d"})", "ttl '36501d' is too long",
       "accepted: at most 36500d, which is a hundred years"},
  };
  for (const auto& [body, message, hint] : cases) {
    const auto quota = quota_change_from(body);
    ASSERT_FALSE(quota) << body;
    EXPECT_EQ(quota.error().message, message);
    EXPECT_EQ(quota.error().hint, hint);
  }
  EXPECT_EQ(quota_change_from(R"({"user":4294967294,"shares":0})")->id, 4294967294u);
  EXPECT_EQ(quota_change_from(R"({"user":"12345","shares":0})")->id, 12345u) << "as the command sends it";
  EXPECT_EQ(to_json(tenancy::changed({}, *quota_change_from(R"({"everyone":true,"ttl":"36500d"})"))),
            R"({"everyone":true,"memory_bytes":null,"compute_ratio":null,"shares":null,"ttl_ns":3153600000000000000,)"
            R"("weight":null,"class":null})");
  const std::string wrapped = "4294967297";
  EXPECT_EQ(quota_named(&wrapped, nullptr, false).error().message, "user = '4294967297' is out of range");
}

TEST(ShareRequestJson, ARemovedQuotaNamesExactlyOneSubject) {
  const std::string root = "root", number = "1234", nobody = "no-such-user";
  EXPECT_EQ(quota_named(&root, nullptr, false)->id, 0u);
  EXPECT_EQ(quota_named(nullptr, &number, false)->subject, tenancy::Quota::Subject::group);
  EXPECT_EQ(quota_named(nullptr, &number, false)->id, 1234u);
  EXPECT_EQ(quota_named(nullptr, nullptr, true)->subject, tenancy::Quota::Subject::every_user);
  EXPECT_EQ(quota_named(nullptr, nullptr, false).error().message,
            "a quota is of exactly one user or group, or of everyone");
  EXPECT_EQ(quota_named(&root, nullptr, true).error().message,
            "a quota is of exactly one user or group, or of everyone");
  EXPECT_EQ(quota_named(&nobody, nullptr, false).error().message, "user = \"no-such-user\" is not understood");
  const std::string no_text = "\xff";
  EXPECT_EQ(quota_named(&no_text, nullptr, false).error().hint, "accepted: a name of this machine, or a number");
}

}  // namespace
}  // namespace headgate::api
