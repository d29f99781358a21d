// Validates untrusted text byte by byte.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace headgate {

// Returns the length of the well-formed character at the start of `text`, which must not be empty; 0 if there is none
// (RFC 3629, section 4: no overlong forms, no surrogates, nothing past U+10FFFF).
[[nodiscard]] std::size_t utf8_character(std::string_view text);

// Returns as much of `text` as fits into `most` bytes in whole characters. Replaces each byte of invalid UTF-8 and each
// character unsafe for a terminal with '?': control characters (also those of Latin 1) and bidirectional controls.
[[nodiscard]] std::string printable(std::string_view text, std::size_t most = std::string::npos);

}  // namespace headgate
