// The text of /etc/ld.so.preload: libraries that glibc's loader loads into every program, in order, separated by blanks
// or colons; '#' starts a comment (ld.so(8)). Pure.
#pragma once

#include <string>
#include <string_view>

namespace headgate::oci {

inline constexpr std::string_view kLimiterFile = "libheadgate.so", kPathFile = "libheadgate-path.so";

// Replaces the first entry with the file name kLimiterFile by `library`, or appends it. Removes further such entries,
// as a program with two copies would be limited by neither. All else stays.
[[nodiscard]] std::string with_limiter(std::string_view text, std::string_view library);
// Removes the entries with one of our file names, and lines that held nothing else.
[[nodiscard]] std::string without_ours(std::string_view text);
// Returns true if such a file can contain the path: it is absolute and has no separator or special character.
[[nodiscard]] bool can_be_preloaded(std::string_view path);

}  // namespace headgate::oci
