#include "power/token.hpp"

#include <gtest/gtest.h>
#include <jwt.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace headgate::power {
namespace {

constexpr std::int64_t kNow = 1'800'000'000;
const std::string kKey = "a key of the test, with a line feed at its end\n";

std::string signed_with(jwt_alg_t algorithm, const std::string& json, const std::string& key = kKey) {
  jwt_t* token = nullptr;
  EXPECT_EQ(::jwt_new(&token), 0);
  EXPECT_EQ(::jwt_add_grants_json(token, json.c_str()), 0);
  const auto* bytes = reinterpret_cast<const unsigned char*>(key.data());
  if (algorithm == JWT_ALG_NONE) EXPECT_EQ(::jwt_set_alg(token, algorithm, nullptr, 0), 0);
  else EXPECT_EQ(::jwt_set_alg(token, algorithm, bytes, static_cast<int>(key.size())), 0);
  char* text = ::jwt_encode_str(token);
  EXPECT_NE(text, nullptr);
  std::string encoded = text == nullptr ? "" : text;
  std::free(text);
  ::jwt_free(token);
  return encoded;
}

std::string refusal_of(const std::string& token, std::int64_t now_s = kNow) {
  const auto claims = verify_token(token, kKey, now_s);
  return claims ? "" : claims.error().message;
}

TEST(Token, AnIssuedTokenIsVerified) {
  const TokenClaims claims{
      .user = "alice", .scopes = {ApiGroup::gpu_control, ApiGroup::cpu_read}, .expires_s = kNow + 60};
  const auto token = issue_token(claims, kKey);
  ASSERT_TRUE(token);
  EXPECT_EQ(verify_token(*token, kKey, kNow), claims);
  const TokenClaims for_ever{.user = "bob", .scopes = {}, .expires_s = {}};
  EXPECT_EQ(verify_token(*issue_token(for_ever, kKey), kKey, kNow), for_ever);
}

TEST(Token, AnotherKeysTokenIsRefused) {
  const TokenClaims claims{.user = "alice", .scopes = {}, .expires_s = {}};
  const auto token = *issue_token(claims, "another key");
  EXPECT_EQ(refusal_of(token), "invalid token: its signature or form is wrong");
  const std::string without_line_feed = kKey.substr(0, kKey.size() - 1);
  EXPECT_FALSE(verify_token(*issue_token(claims, without_line_feed), kKey, kNow)) << "the line feed is part of the key";
}

TEST(Token, IsHs256Only) {
  const std::string json = R"({"sub":"alice","scopes":[]})";
  EXPECT_EQ(refusal_of(signed_with(JWT_ALG_HS256, json)), "");
  EXPECT_NE(refusal_of(signed_with(JWT_ALG_NONE, json)), "") << "no signature at all";
  EXPECT_EQ(refusal_of(signed_with(JWT_ALG_HS512, json)), "invalid token: it is not signed with HS256");
  // Header {"alg":"RS256"}: the key would be used as a public key.
  EXPECT_NE(refusal_of("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIiwic2NvcGVzIjpbXX0.c2ln"), "");
}

TEST(Token, IsValidForAMinuteAfterItsEnd) {
  const auto token = *issue_token({.user = "alice", .scopes = {}, .expires_s = kNow}, kKey);
  EXPECT_EQ(refusal_of(token, kNow + 60), "");
  EXPECT_EQ(refusal_of(token, kNow + 61), "invalid token: it has expired");
}

TEST(Token, ClaimsFollowTheRulesOfZeusd) {
  EXPECT_TRUE(claims_from(R"({"sub":"a","scopes":["gpu-read"],"nbf":99999999999,"iss":1,"more":{}})"))
      << "other claims count for nothing";
  const std::pair<const char*, const char*> refused[] = {
      {R"({"scopes":[]})", "needs the claim sub"},
      {R"({"sub":1,"scopes":[]})", "needs the claim sub"},
      {R"({"sub":"a"})", "needs the claim scopes"},
      {R"({"sub":"a","scopes":"gpu-read"})", "needs the claim scopes"},
      {R"({"sub":"a","scopes":["root"]})", "scope \"root\" is no API group"},
      {R"({"sub":"a","scopes":[1]})", "scope 1 is no API group"},
      {R"({"sub":"a","scopes":[],"exp":"1800000000"})", "exp is no whole number"},
      {R"({"sub":"a","scopes":[],"exp":1.5})", "exp is no whole number"},
      {R"({"sub":"a","scopes":[],"exp":null})", "exp is no whole number"},
      {R"({"sub":"a","scopes":[],"exp":18446744073709551615})", "exp is no whole number"},
      {R"({"sub":"a","scopes":[],"aud":"x"})", "another audience"},
      {"[]", "no JSON object"},
      {"", "no JSON object"},
  };
  for (const auto& [json, words] : refused) {
    const auto claims = claims_from(json);
    ASSERT_FALSE(claims) << json;
    EXPECT_EQ(claims.error().code, ErrorCode::denied);
    EXPECT_NE(claims.error().message.find(words), std::string::npos) << claims.error().message;
  }
}

TEST(Token, AnInvalidTokenIsRefused) {
  for (const std::string& text : {std::string(), std::string("x"), std::string("a.b.c"), std::string(1 << 20, 'a'),
                                  std::string("a\0b", 3), std::string("..")})
    EXPECT_NE(refusal_of(text), "");
}

TEST(Token, GroupsAreReadByName) {
  EXPECT_EQ(*api_groups_from("gpu-control, cpu-read,gpu-control"),
            (std::vector{ApiGroup::gpu_control, ApiGroup::cpu_read}));
  EXPECT_TRUE(api_groups_from("")->empty());
  EXPECT_EQ(api_groups_from("gpu-write").error().message, "'gpu-write' is no API group");
  EXPECT_FALSE(api_groups_from("gpu-read,,cpu-read"));
}

TEST(Token, HasAnEndThatIsASpanOrNever) {
  EXPECT_EQ(*token_end("never", kNow), std::nullopt);
  EXPECT_EQ(*token_end("0", kNow), std::nullopt);
  EXPECT_EQ(*token_end("30d", kNow), kNow + 30 * 86'400);
  EXPECT_EQ(*token_end("1h 30m", kNow), kNow + 5400);
  EXPECT_EQ(*token_end("1h30m", kNow), kNow + 5400);
  EXPECT_EQ(*token_end("12hours", kNow), kNow + 12 * 3600);
  for (const char* text : {"", "30", "d", "-1d", "1x", "0s", "99999999999y", "1h,2m"})
    EXPECT_FALSE(token_end(text, kNow)) << text;
}

TEST(Token, AKeyIsItsFilesBytesAndMustBeSecret) {
  std::string folder = "/tmp/headgate-key-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/key";
  const auto write = [&](const std::string& text, mode_t mode) {
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
  };
  write("secret\n", 0600);
  EXPECT_EQ(read_signing_key(path), "secret\n");
  write("secret\n", 0640);
  EXPECT_TRUE(read_signing_key(path)) << "its group may read it";
  write("secret\n", 0644);
  EXPECT_EQ(read_signing_key(path).error().code, ErrorCode::denied);
  write("", 0600);
  EXPECT_NE(read_signing_key(path).error().message.find("is empty"), std::string::npos);
  EXPECT_FALSE(read_signing_key(folder));
  EXPECT_FALSE(read_signing_key(path + ".missing"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace headgate::power
