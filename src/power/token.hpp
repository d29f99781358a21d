// Signed tokens that say who calls and which groups of the zeusd API he may use: JSON Web Tokens with HS256 (RFC 7519),
// as zeusd's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace headgate::power {

// The groups of the zeusd API: what `--enable` and a token's scopes list.
enum class ApiGroup { gpu_control, gpu_read, cpu_read };
[[nodiscard]] std::string_view name_of(ApiGroup group);  // "gpu-control"
[[nodiscard]] std::optional<ApiGroup> api_group_from(std::string_view name);
// "gpu-control,gpu-read"; blanks around the names are passed over. Errors: usage, with the name that is none.
[[nodiscard]] Result<std::vector<ApiGroup>> api_groups_from(std::string_view list);

struct TokenClaims {
  std::string user;  // the claim `sub`
  std::vector<ApiGroup> scopes;
  std::optional<std::int64_t> expires_s;  // seconds since 1970; empty: never
  friend bool operator==(const TokenClaims&, const TokenClaims&) = default;

  [[nodiscard]] bool allows(ApiGroup group) const;
};

// A token counts until this long after its end, for clocks that differ.
inline constexpr std::int64_t kTokenLeewayS = 60;

// The claims in a token's JSON, by zeusd's rules: `sub` a string, `scopes` an array of known groups, `exp` absent or an
// integer; `aud` must be absent; other claims count for nothing. Pure. Errors: denied, with the claim that is wrong.
[[nodiscard]] Result<TokenClaims> claims_from(std::string_view json);

// Checks signature, algorithm, claims and end. Errors: denied, with the reason.
[[nodiscard]] Result<TokenClaims> verify_token(const std::string& token, std::string_view key, std::int64_t now_s);

// Errors: failed (no memory), usage (an empty key or user).
[[nodiscard]] Result<std::string> issue_token(const TokenClaims& claims, std::string_view key);

// The file's bytes as they are, a line feed at the end too. Errors: usage (empty, longer than 64 KiB, no file), denied
// (others than its owner and group can read or write it).
[[nodiscard]] Result<std::string> read_signing_key(const std::string& path);

// The end of a token that is issued at `now_s`: "never" and "0" for none, else spans such as "30d", "1h 30m",
// "12hours". Errors: usage.
[[nodiscard]] Result<std::optional<std::int64_t>> token_end(std::string_view text, std::int64_t now_s);

}  // namespace headgate::power
