#include "guest/pathinject/list.hpp"

#include "guest/bare/text.hpp"
#include "guest/grant/text.hpp"

namespace headgate::pathinject {
namespace {

constexpr char kJoin = ':';  // valid in PATH, LD_LIBRARY_PATH and LD_PRELOAD

bool is_separator(char c, std::string_view separators) { return grant::position(separators, c) < separators.size(); }

// Removes and returns the first entry of a list that is not empty.
std::string_view take(std::string_view& list, std::string_view separators) {
  std::size_t end = 0;
  while (end < list.size() && !is_separator(list[end], separators)) ++end;
  const std::string_view entry = grant::first(list, end);
  list = grant::from(list, end + 1);
  return entry;
}

bool has(std::string_view list, std::string_view entry, std::string_view separators) {
  while (!list.empty())
    if (take(list, separators) == entry) return true;
  return false;
}

void join(bare::Text& text, std::string_view more) {
  if (text.size() != 0) text.add(kJoin);
  text.add(more);
}

// Adds the entries that are in neither `text` nor `also`.
bool join_missing(bare::Text& text, std::string_view additions, std::string_view also, std::string_view separators) {
  bool any = false;
  while (!additions.empty()) {
    const std::string_view entry = take(additions, separators);
    if (entry.empty() || has(text.view(), entry, separators) || has(also, entry, separators)) continue;
    join(text, entry);
    any = true;
  }
  return any;
}

}  // namespace

bool edited(std::string_view current, const Additions& additions, std::string_view separators, std::span<char> out) {
  bare::Text text(out);
  bool any = false;
  for (const std::string_view list : additions.prepend) any |= join_missing(text, list, current, separators);
  if (!current.empty()) join(text, current);
  for (const std::string_view list : additions.append) any |= join_missing(text, list, {}, separators);
  return any && !text.full();
}

}  // namespace headgate::pathinject
