// Holds a reply against the OpenAPI document, for tests of the server as well.
#pragma once

#include <string>
#include <string_view>

namespace headgate::api {

// What is wrong with `body` as the reply to the operation with that HTTP status: a sentence with the place, or empty.
// A status that the document does not name is held against the operation's `default`. Understands the keywords that our
// documents use; any other one is a complaint too, so that nothing is passed over unseen.
[[nodiscard]] std::string objection(std::string_view document, std::string_view operation_id, int status,
                                    std::string_view body, std::string_view content_type = "application/json");

// The same for a request's body.
[[nodiscard]] std::string request_objection(std::string_view document, std::string_view operation_id,
                                            std::string_view body);

}  // namespace headgate::api
