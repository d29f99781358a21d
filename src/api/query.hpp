// Query parameters that several routes parse alike.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "http/message.hpp"

namespace headgate::api {

inline constexpr std::string_view kAcceptedFlag = "1 or true; 0 or false is as if it were not there";

// Parses a boolean; false if absent. Errors: usage for any other value, so that "no" is not read as true.
[[nodiscard]] Result<bool> flag_in(const http::Request& request, std::string_view name);

}  // namespace headgate::api
