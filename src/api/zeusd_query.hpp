// Parses the query of a zeusd request as strictly as zeusd does: unknown, repeated, missing and ill-typed parameters
// are refused. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "http/message.hpp"

namespace headgate::api {

struct ZeusdParameter {
  enum class Kind {
    ids,     // "0,1": integers separated by commas; sorted, no duplicates
    flag,    // "true" or "false", exactly
    number,  // a 32-bit unsigned integer
  };
  std::string_view name;
  Kind kind;
  bool required;
};

struct ZeusdQuery {
  std::map<std::string, std::vector<std::uint32_t>, std::less<>> ids;
  std::map<std::string, bool, std::less<>> flags;
  std::map<std::string, std::uint32_t, std::less<>> numbers;

  // Returns the parameter; if it was not given: nothing, false or 0.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> list(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const;
  [[nodiscard]] std::uint32_t number(std::string_view name) const;
};

// Errors: usage; the message contains zeusd's words "missing field", "unknown field", "duplicate field" or "invalid".
[[nodiscard]] Result<ZeusdQuery> parse_zeusd_query(const http::Fields& query, std::span<const ZeusdParameter> accepted);

}  // namespace headgate::api
