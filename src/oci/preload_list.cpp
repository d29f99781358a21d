#include "oci/preload_list.hpp"

#include <algorithm>
#include <utility>

namespace headgate::oci {
namespace {

constexpr std::string_view kSeparators = " \t:";

std::string_view file_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }  // npos + 1 is 0

// Edits one line, passed without its comment: replaces each entry by the result of `replace`, or drops it if that is
// empty. Returns true if an entry changed.
template <typename Replace>
bool edit_line(std::string_view line, Replace replace, std::string& out) {
  bool changed = false;
  while (!line.empty()) {
    const std::size_t blank = std::min(line.find_first_not_of(kSeparators), line.size());
    const std::size_t end = std::min(line.find_first_of(kSeparators, blank), line.size());
    const std::string_view entry = line.substr(blank, end - blank), now = entry.empty() ? entry : replace(entry);
    changed |= now != entry;
    if (!now.empty() || entry.empty()) out.append(line.substr(0, blank)).append(now);
    line.remove_prefix(end);
  }
  return changed;
}

template <typename Replace>
std::string edit(std::string_view text, Replace replace) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end), comment = line.substr(std::min(line.find('#'), line.size()));
    std::string edited;
    const bool changed = edit_line(line.substr(0, line.size() - comment.size()), replace, edited);
    edited += comment;
    if (!changed || edited.find_first_not_of(kSeparators) != std::string::npos) {
      out += edited;
      if (end < text.size()) out += '\n';
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

std::string with_limiter(std::string_view text, std::string_view library) {
  bool there = false;
  std::string out = edit(text, [&](std::string_view entry) -> std::string_view {
    if (file_of(entry) != kLimiterFile) return entry;
    return std::exchange(there, true) ? std::string_view{} : library;
  });
  if (there) return out;
  if (!out.empty() && out.back() != '\n') out += '\n';
  return out.append(library) + '\n';
}

std::string without_ours(std::string_view text) {
  return edit(text, [](std::string_view entry) {
    return file_of(entry) == kLimiterFile || file_of(entry) == kPathFile ? std::string_view{} : entry;
  });
}

bool can_be_preloaded(std::string_view path) {
  return path.starts_with('/') && std::ranges::none_of(path, [](char c) {
           return static_cast<unsigned char>(c) <= ' ' || c == ':' || c == '#' || c == '$' || c == 0x7f;
         });
}

}  // namespace headgate::oci
