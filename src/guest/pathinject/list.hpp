// Lists of paths as the environment holds them, and what is added to them. Pure, allocates nothing.
#pragma once

#include <span>
#include <string_view>

namespace headgate::pathinject {

// What parts the entries of each list; any one of the characters does. An empty entry of the first two is the current
// directory.
inline constexpr std::string_view kPathSeparators = ":", kLibraryPathSeparators = ":;", kPreloadSeparators = ": ";

// Lists of the same kind, before and behind the one that there is; of two, the first stands before the second. Empty
// entries in them are left out.
struct Additions {
  std::string_view prepend[2], append[2];

  friend bool operator==(const Additions&, const Additions&) = default;
};

// `current` with what it lacks of the additions, in `out`, terminated. What it has already stays where it is, also
// where it was to be put first: a program that has put its own entries before ours meant it, and we look again at its
// every exec. Nothing else of `current` changes, but an empty list counts as no entry. False: nothing to add, or `out`
// is too small.
[[nodiscard]] bool edited(std::string_view current, const Additions& additions, std::string_view separators,
                          std::span<char> out);

}  // namespace headgate::pathinject
