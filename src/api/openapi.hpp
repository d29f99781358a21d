// The OpenAPI 3.1 document of what headgated answers, made from the table of routes and the structs of a snapshot.
#pragma once

#include <string>
#include <string_view>

#include "api/routes.hpp"

namespace headgate::api {

// JSON text. Every reply and request body is a schema under components, so that a reply can be checked against it.
[[nodiscard]] std::string openapi(std::string_view version);

}  // namespace headgate::api
