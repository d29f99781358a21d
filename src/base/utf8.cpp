#include "base/utf8.hpp"

#include <algorithm>
#include <cstdint>

namespace headgate {

std::size_t utf8_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto follows = [&](std::size_t i, unsigned least = 0x80, unsigned most = 0xbf) {
    return byte(i) >= least && byte(i) <= most;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef)
    return follows(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf) && follows(2) ? 3 : 0;
  if (first >= 0xf0 && first <= 0xf4)
    return follows(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf) && follows(2) && follows(3) ? 4 : 0;
  return 0;
}

namespace {

bool may_be_shown(std::string_view character) {
  const auto byte = [character](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) >= 0x20 && byte(0) != 0x7f;
  std::uint32_t point = byte(0) & (0xffu >> (character.size() + 1));
  for (std::size_t i = 1; i < character.size(); ++i) point = point << 6 | (byte(i) & 0x3f);
  const bool turns = (point >= 0x200b && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
                     (point >= 0x2060 && point <= 0x206f) || point == 0xfeff;
  return point >= 0xa0 && !turns;
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  while (!text.empty()) {
    const std::string_view next = text.substr(0, utf8_character(text));
    const bool shown = !next.empty() && may_be_shown(next);
    if (out.size() + (shown ? next.size() : 1) > most) break;
    if (shown) out += next;
    else out += '?';
    text.remove_prefix(std::max<std::size_t>(next.size(), 1));
  }
  return out;
}

}  // namespace headgate
