// Signed tokens that identify a caller and its zeusd API groups: JSON Web Tokens with HS256 (RFC 7519), as in zeusd.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace headgate::power {

// The groups of the zeusd API, as listed by `--enable` and by a token's scopes.
enum class ApiGroup { gpu_control, gpu_read, cpu_read };
[[nodiscard]] std::string_view name_of(ApiGroup group);  // "gpu-control"
[[nodiscard]] std::optional<ApiGroup> api_group_from(std::string_view name);
// Parses "gpu-control,gpu-read", ignoring blanks around names. Errors: usage, naming the unknown group.
[[nodiscard]] Result<std::vector<ApiGroup>> api_groups_from(std::string_view list);

struct TokenClaims {
  std::string user;  // the claim `sub`
  std::vector<ApiGroup> scopes;
  std::optional<std::int64_t> expires_s;  // seconds since 1970; empty: never
  friend bool operator==(const TokenClaims&, const TokenClaims&) = default;

  [[nodiscard]] bool allows(ApiGroup group) const;
};

// Tokens are accepted this long after expiry, because clocks differ.
inline constexpr std::int64_t kTokenLeewayS = 60;

// Parses a token's claims by zeusd's rules: `sub` a string, `scopes` an array of known groups, `exp` absent or an
// integer, `aud` absent; other claims are ignored. Pure. Errors: denied, naming the wrong claim.
[[nodiscard]] Result<TokenClaims> claims_from(std::string_view json);

// Checks signature, algorithm, claims and expiry. Errors: denied, with the reason.
[[nodiscard]] Result<TokenClaims> verify_token(const std::string& token, std::string_view key, std::int64_t now_s);

// Errors: failed (no memory), usage (an empty key or user).
[[nodiscard]] Result<std::string> issue_token(const TokenClaims& claims, std::string_view key);

// Returns the file's bytes unchanged, including a final line feed. Errors: usage (empty, longer than 64 KiB, not a
// file), denied (users other than its owner and group may read or write it).
[[nodiscard]] Result<std::string> read_signing_key(const std::string& path);

// Returns the expiry of a token issued at `now_s`: none for "never" and "0", else after spans such as "30d", "1h 30m",
// "12hours". Errors: usage.
[[nodiscard]] Result<std::optional<std::int64_t>> token_end(std::string_view text, std::int64_t now_s);

}  // namespace headgate::power
