// The OpenAPI 3.1 document of headgated's API, made from the route table and the snapshot structs.
#pragma once

#include <string>
#include <string_view>

#include "api/routes.hpp"

namespace headgate::api {

// Returns JSON text. Each reply and request body is a schema under components, so replies can be validated.
[[nodiscard]] std::string openapi(std::string_view version);

// Returns a JSON object of schemas by name: the error (base/result.hpp) as http/ writes it, and the replies that are
// not snapshot structs.
[[nodiscard]] std::string small_schemas();

}  // namespace headgate::api
