// What stands behind the '?' of a request, where several routes read it alike.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "http/message.hpp"

namespace headgate::api {

inline constexpr std::string_view kAcceptedFlag = "1 or true; 0 or false is as if it were not there";

// A yes or a no; not there: no. Errors: usage, where it is anything else: whoever writes "no" does not mean yes.
[[nodiscard]] Result<bool> flag_in(const http::Request& request, std::string_view name);

}  // namespace headgate::api
