// Text that others wrote, byte by byte.
#pragma once

#include <cstddef>
#include <string_view>

namespace headgate {

// How many bytes a well-formed character takes at the beginning of `text`, which is not empty; 0: none stands there
// (RFC 3629, section 4: no overlong forms, no surrogates, nothing past U+10FFFF).
[[nodiscard]] std::size_t utf8_character(std::string_view text);

}  // namespace headgate
