// Schemas of the OpenAPI document, beside those of a snapshot's structs and of requests.
#pragma once

#include <string>

namespace headgate::api {

// A JSON object of schemas by name: the error (base/result.hpp) as http/ writes it, and the replies that are no struct
// of a snapshot.
[[nodiscard]] std::string small_schemas();

}  // namespace headgate::api
