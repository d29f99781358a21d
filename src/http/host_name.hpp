// Whether a request is meant for us, by its Host header.
//
// A page of a foreign site may let the browser that shows it ask 127.0.0.1, by giving its own name that address a
// moment later (DNS rebinding). The browser then believes that it speaks to that site, and says so in Host.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace headgate::http {

// An address, "localhost", or one of `names` (ASCII letters of either case are one; a dot at the end is none), each
// with or without a port. Nobody can be sent to an address by a name that he believes in.
[[nodiscard]] bool is_own_name(std::string_view host, std::span<const std::string> names);

}  // namespace headgate::http
