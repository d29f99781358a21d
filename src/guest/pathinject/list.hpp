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

// Writes `current` and the additions that it lacks to `out`, NUL-terminated. An entry that is already there keeps its
// position, even if it should be prepended: this runs at every exec, and a program may have put other entries first on
// purpose. An empty list counts as no entry. Returns false if there is nothing to add, or `out` is too small.
[[nodiscard]] bool edited(std::string_view current, const Additions& additions, std::string_view separators,
                          std::span<char> out);

}  // namespace headgate::pathinject
