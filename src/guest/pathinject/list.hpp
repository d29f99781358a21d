// Lists of paths as the environment holds them, and additions to them. Pure, allocates nothing.
#pragma once

#include <span>
#include <string_view>

namespace headgate::pathinject {

// Each character of a string separates entries of that list. In the first two lists an empty entry means the current
// directory.
inline constexpr std::string_view kPathSeparators = ":", kLibraryPathSeparators = ":;", kPreloadSeparators = ": ";

// Lists of the same kind to put before and after the existing one; the first of two goes before the second. Empty
// entries are ignored.
struct Additions {
  std::string_view prepend[2], append[2];

  friend bool operator==(const Additions&, const Additions&) = default;
};

// Writes `current` and the additions that it lacks to `out`, NUL-terminated. An entry it already has stays in its
// position, even if it was to be prepended: a program that put its own entries first meant to, and this runs at its
// every exec. Otherwise keeps `current`; an empty list counts as no entry. False: nothing to add, or `out` is too
// small.
[[nodiscard]] bool edited(std::string_view current, const Additions& additions, std::string_view separators,
                          std::span<char> out);

}  // namespace headgate::pathinject
