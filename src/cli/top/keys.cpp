#include "cli/top/keys.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "cli/term/frame.hpp"
#include "cli/term/output.hpp"

namespace headgate::cli {
namespace {

constexpr char kEscape = '\x1b';
constexpr std::size_t kLongest = 32;

struct Sequence {
  std::string_view after_escape;
  KeyKind kind;
};
constexpr std::array kSequences = {
    Sequence{"[A", KeyKind::up},    Sequence{"OA", KeyKind::up},       Sequence{"[B", KeyKind::down},
    Sequence{"OB", KeyKind::down},  Sequence{"[C", KeyKind::right},    Sequence{"OC", KeyKind::right},
    Sequence{"[D", KeyKind::left},  Sequence{"OD", KeyKind::left},     Sequence{"[H", KeyKind::home},
    Sequence{"OH", KeyKind::home},  Sequence{"[1~", KeyKind::home},    Sequence{"[7~", KeyKind::home},
    Sequence{"[F", KeyKind::end},   Sequence{"OF", KeyKind::end},      Sequence{"[4~", KeyKind::end},
    Sequence{"[8~", KeyKind::end},  Sequence{"[5~", KeyKind::page_up}, Sequence{"[6~", KeyKind::page_down},
    Sequence{"OP", KeyKind::f1},    Sequence{"[11~", KeyKind::f1},     Sequence{"[[A", KeyKind::f1},
    Sequence{"[17~", KeyKind::f6},  Sequence{"[20~", KeyKind::f9},     Sequence{"[21~", KeyKind::f10},
    Sequence{"OM", KeyKind::enter},
};

// Returns the length of the sequence at the front; 0 if it is incomplete.
std::size_t sequence_length(std::string_view text) {
  if (text.size() < 2) return 0;
  if (text[1] == 'O') return text.size() < 3 ? 0 : 3;
  if (text[1] != '[') return 1;                                           // escape alone, then another key
  if (text.size() > 2 && text[2] == '[') return text.size() < 4 ? 0 : 4;  // the Linux console's F1 to F5
  for (std::size_t i = 2; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte > 0x7e) return i;  // not a sequence after all
    if (byte < 0x40) continue;
    // X10 mouse report: three more bytes with any values.
    return byte == 'M' && i == 2 ? (text.size() < i + 4 ? 0 : i + 4) : i + 1;
  }
  return text.size() >= kLongest ? text.size() : 0;
}

std::optional<Key> key_of_sequence(std::string_view sequence) {
  if (sequence.size() == 1) return Key{KeyKind::escape};
  for (const Sequence& known : kSequences)
    if (known.after_escape == sequence.substr(1)) return Key{known.kind};
  return std::nullopt;
}

std::optional<Key> key_of_byte(char byte) {
  switch (byte) {
    case '\r':
    case '\n': return Key{KeyKind::enter};
    case '\t': return Key{KeyKind::tab};
    case '\b':
    case '\x7f': return Key{KeyKind::backspace};
    case '\x0c': return Key{KeyKind::redraw};
    default: return std::nullopt;
  }
}

// Returns the length of the UTF-8 character that `first` starts.
std::size_t wanted(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0xc2 || byte >= 0xf5 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

// Returns true if the bytes so far may still become one character.
bool may_go_on(std::string_view bytes) {
  for (const char byte : bytes.substr(1))
    if ((static_cast<unsigned char>(byte) & 0xc0) != 0x80) return false;
  return bytes.size() < wanted(bytes.front());
}

}  // namespace

std::vector<Key> KeyReader::feed(std::string_view bytes) {
  std::vector<Key> keys;
  held_ += bytes;
  std::string_view rest = held_;
  while (!rest.empty()) {
    std::size_t length = 1;
    std::optional<Key> key;
    if (rest[0] == kEscape) {
      length = sequence_length(rest);
      if (length == 0) break;
      key = key_of_sequence(rest.substr(0, length));
    } else if (static_cast<unsigned char>(rest[0]) < 0x20 || rest[0] == '\x7f') {
      key = key_of_byte(rest[0]);
    } else {
      if (may_go_on(rest.substr(0, wanted(rest[0])))) break;
      length = first_glyph(rest).bytes;
      std::string text(rest.substr(0, length));
      // Text that may not be printed to a terminal is not a key either.
      if (text == "?" || harmless(text) == text) key = Key{KeyKind::text, std::move(text)};
    }
    if (key) keys.push_back(std::move(*key));
    rest.remove_prefix(length);
  }
  held_.erase(0, held_.size() - rest.size());
  return keys;
}

std::vector<Key> KeyReader::pause() {
  const bool lone = held_ == std::string(1, kEscape);
  held_.clear();
  return lone ? std::vector<Key>{Key{KeyKind::escape}} : std::vector<Key>{};
}

}  // namespace headgate::cli
