#include "power/token.hpp"

#include <jwt.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <ranges>

#include "base/duration.hpp"
#include "base/trimmed.hpp"
#include "base/utf8.hpp"
#include "base/whole_file.hpp"

namespace headgate::power {
namespace {

using Json = nlohmann::json;

constexpr std::pair<ApiGroup, std::string_view> kGroups[] = {
    {ApiGroup::gpu_control, "gpu-control"}, {ApiGroup::gpu_read, "gpu-read"}, {ApiGroup::cpu_read, "cpu-read"}};
constexpr const char* kAcceptedGroups = "accepted: gpu-control, gpu-read, cpu-read";
constexpr std::size_t kMaxKeyBytes = 64 << 10;
constexpr std::size_t kMaxTokenBytes = 16 << 10;

struct FreeToken {
  void operator()(jwt_t* token) const { ::jwt_free(token); }
};
struct FreeText {
  void operator()(char* text) const { std::free(text); }
};
using Token = std::unique_ptr<jwt_t, FreeToken>;
using Text = std::unique_ptr<char, FreeText>;

std::unexpected<Error> refuse(std::string why) {
  return fail(ErrorCode::denied, "invalid token: " + std::move(why), "headgate zeusd token issue makes one");
}

}  // namespace

std::string_view name_of(ApiGroup group) {
  return std::ranges::find(kGroups, group, [](const auto& known) { return known.first; })->second;
}

std::optional<ApiGroup> api_group_from(std::string_view name) {
  const auto* const found = std::ranges::find(kGroups, name, [](const auto& known) { return known.second; });
  return found == std::end(kGroups) ? std::nullopt : std::optional(found->first);
}

Result<std::vector<ApiGroup>> api_groups_from(std::string_view list) {
  std::vector<ApiGroup> groups;
  for (const auto part : std::views::split(list, ',')) {
    const std::string_view name = trimmed({part.begin(), part.end()});
    const auto group = api_group_from(name);
    if (!group) return fail(ErrorCode::usage, "'" + printable(name) + "' is no API group", kAcceptedGroups);
    if (std::ranges::find(groups, *group) == groups.end()) groups.push_back(*group);
  }
  return groups;
}

bool TokenClaims::allows(ApiGroup group) const { return std::ranges::find(scopes, group) != scopes.end(); }

Result<TokenClaims> claims_from(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return refuse("its claims are no JSON object");
  TokenClaims claims;
  const auto user = json.find("sub");
  if (user == json.end() || !user->is_string()) return refuse("it needs the claim sub, a string");
  claims.user = user->get<std::string>();
  if (json.contains("aud")) return refuse("it is for another audience (claim aud)");
  const auto scopes = json.find("scopes");
  if (scopes == json.end() || !scopes->is_array()) return refuse("it needs the claim scopes, an array");
  for (const Json& scope : *scopes) {
    const auto group = scope.is_string() ? api_group_from(scope.get_ref<const std::string&>()) : std::nullopt;
    if (!group)
      return refuse("scope " + printable(scope.dump(-1, ' ', true, Json::error_handler_t::replace)) +
                    " is no API group");
    claims.scopes.push_back(*group);
  }
  if (const auto end = json.find("exp"); end != json.end()) {
    const bool fits = end->is_number_integer() &&
                      (!end->is_number_unsigned() || end->get<std::uint64_t>() <= std::uint64_t{INT64_MAX});
    if (!fits) return refuse("its claim exp is no whole number");
    claims.expires_s = end->get<std::int64_t>();
  }
  return claims;
}

Result<TokenClaims> verify_token(const std::string& token, std::string_view key, std::int64_t now_s) {
  if (token.empty() || token.size() > kMaxTokenBytes || token.contains('\0')) return refuse("it is no JSON Web Token");
  jwt_t* decoded = nullptr;
  if (::jwt_decode(&decoded, token.c_str(), reinterpret_cast<const unsigned char*>(key.data()),
                   static_cast<int>(key.size())) != 0)
    return refuse("its signature or form is wrong");
  const Token held(decoded);
  // The token must not choose the algorithm: "none" would mean no signature.
  if (::jwt_get_alg(held.get()) != JWT_ALG_HS256) return refuse("it is not signed with HS256");
  const Text text(::jwt_get_grants_json(held.get(), nullptr));
  if (!text) return refuse("it has no claims");
  auto claims = TRY(claims_from(text.get()));
  if (claims.expires_s && now_s - kTokenLeewayS > *claims.expires_s) return refuse("it has expired");
  return claims;
}

Result<std::string> issue_token(const TokenClaims& claims, std::string_view key) {
  if (key.empty()) return fail(ErrorCode::usage, "the signing key is empty", "a file with at least one byte");
  if (claims.user.empty()) return fail(ErrorCode::usage, "the token's user is empty", "--user NAME");
  jwt_t* made = nullptr;
  if (::jwt_new(&made) != 0) return fail_errno("making a token", ENOMEM);
  const Token token(made);
  Json json = {{"sub", claims.user}, {"scopes", Json::array()}};
  for (const ApiGroup scope : claims.scopes) json["scopes"].push_back(name_of(scope));
  if (claims.expires_s) json["exp"] = *claims.expires_s;
  const std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (::jwt_add_grants_json(token.get(), text.c_str()) != 0 ||
      ::jwt_set_alg(token.get(), JWT_ALG_HS256, reinterpret_cast<const unsigned char*>(key.data()),
                    static_cast<int>(key.size())) != 0)
    return fail_errno("making a token", errno);
  const Text encoded(::jwt_encode_str(token.get()));
  if (!encoded) return fail_errno("signing a token", errno);
  return std::string(encoded.get());
}

Result<std::string> read_signing_key(const std::string& path) {
  auto file = read_whole_file(path, kMaxKeyBytes);
  const std::string name = "the signing key " + path;
  if (!file)
    return fail(file.error().code, name + ": " + file.error().message,
                "a file that the daemon can read, of 32 random bytes or so");
  if ((file->facts.st_mode & 0007) != 0)
    return fail(ErrorCode::denied, name + " is open to all users", "chmod o-rwx " + path);
  if (file->text.empty()) return fail(ErrorCode::usage, name + " is empty", "make one: head -c 32 /dev/urandom > FILE");
  return std::move(file->text);
}

Result<std::optional<std::int64_t>> token_end(std::string_view text, std::int64_t now_s) {
  const auto refused = [&] {
    return fail(ErrorCode::usage, "'" + printable(text) + "' is no time after which a token ends",
                "accepted: never, 0, or spans such as 30d, 1h 30m");
  };
  if (text == "never" || text == "0") return std::optional<std::int64_t>{};
  const auto spans = read_spans(text);
  if (!spans) return refused();
  return std::optional(now_s + spans->count());
}

}  // namespace headgate::power
