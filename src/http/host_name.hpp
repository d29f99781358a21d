// Checks by its Host header that a request is meant for us.
//
// A foreign site's page can make the user's browser send requests to 127.0.0.1, by resolving its own name to that
// address a moment later (DNS rebinding). The browser still takes us for that site, and sends its name in Host.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace headgate::http {

// Returns true for an address, "localhost" or one of `names`, with or without a port. ASCII case and a trailing dot are
// ignored. An address is safe, because DNS rebinding needs a name.
[[nodiscard]] bool is_own_name(std::string_view host, std::span<const std::string> names);

}  // namespace headgate::http
