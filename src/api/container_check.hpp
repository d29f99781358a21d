// GET /v1/shares/NAME/container: whether a container may start in the share now.
#pragma once

#include "http/message.hpp"
#include "node/node.hpp"

namespace headgate::api {

[[nodiscard]] Result<http::Response> container_check(const http::Request& request, const node::Caller& caller,
                                                     node::Node& node);

}  // namespace headgate::api
