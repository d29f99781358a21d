// Text that others wrote, byte by byte.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace headgate {

// How many bytes a well-formed character takes at the beginning of `text`, which is not empty; 0: none stands there
// (RFC 3629, section 4: no overlong forms, no surrogates, nothing past U+10FFFF).
[[nodiscard]] std::size_t utf8_character(std::string_view text);

// `text` as far as it fits into `most` bytes in whole characters, with a '?' for each that must not reach a terminal:
// control characters (those of Latin 1 and the ones that turn the direction of writing included), and each byte that is
// no UTF-8.
[[nodiscard]] std::string printable(std::string_view text, std::size_t most = std::string::npos);

}  // namespace headgate
