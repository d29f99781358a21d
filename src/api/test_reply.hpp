// Validates replies against the OpenAPI document; used by tests of the server too.
#pragma once

#include <string>
#include <string_view>

namespace headgate::api {

// Returns what is wrong with `body` as that operation's reply with that HTTP status: a sentence with the place, or
// empty. A status that the document does not list is checked against `default`. Only the keywords that our documents
// use are supported; any other is reported, so that nothing is skipped silently.
[[nodiscard]] std::string objection(std::string_view document, std::string_view operation_id, int status,
                                    std::string_view body, std::string_view content_type = "application/json");

// The same for a request body.
[[nodiscard]] std::string request_objection(std::string_view document, std::string_view operation_id,
                                            std::string_view body);

}  // namespace headgate::api
