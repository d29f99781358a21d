// Schemas of the OpenAPI document, besides those of snapshot structs and of requests.
#pragma once

#include <string>

namespace headgate::api {

// Returns a JSON object of schemas by name: the error (base/result.hpp) as http/ writes it, and the replies that are
// not snapshot structs.
[[nodiscard]] std::string small_schemas();

}  // namespace headgate::api
