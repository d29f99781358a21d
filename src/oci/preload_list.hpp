// The text of an /etc/ld.so.preload: libraries that glibc's loader loads into every program, in this order, separated
// by blanks or colons; '#' begins a comment (ld.so(8)). Pure.
#pragma once

#include <string>
#include <string_view>

namespace headgate::oci {

inline constexpr std::string_view kLimiterFile = "libheadgate.so", kPathFile = "libheadgate-path.so";

// `text` with `library` in place of the first entry whose file is called kLimiterFile, at the end where there is none;
// further such entries go: a program that loads two copies is held by neither's books. All else stays as it is.
[[nodiscard]] std::string with_limiter(std::string_view text, std::string_view library);
// `text` without entries whose file is one of ours, and without the lines that held nothing else.
[[nodiscard]] std::string without_ours(std::string_view text);
// Whether such a file can name the path: absolute, and without a character that it takes for another thing.
[[nodiscard]] bool can_be_preloaded(std::string_view path);

}  // namespace headgate::oci
