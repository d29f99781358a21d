// Parses untrusted JSON within limits.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/result.hpp"

namespace headgate::oci {

using Json = nlohmann::json;

struct JsonBounds {
  std::size_t bytes = 4 << 20;
  int depth = 16;
};

// Errors: usage: too long, too deep, not JSON, or a duplicate field, which programs resolve differently.
[[nodiscard]] Result<Json> parse_json(std::string_view text, const JsonBounds& bounds);

}  // namespace headgate::oci
