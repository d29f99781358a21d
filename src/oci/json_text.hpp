// JSON that others wrote, read with bounds.
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

// Errors: usage: longer, deeper, no JSON, or a field that an object has twice, of which programs take one or the other.
[[nodiscard]] Result<Json> parse_json(std::string_view text, const JsonBounds& bounds);

}  // namespace headgate::oci
