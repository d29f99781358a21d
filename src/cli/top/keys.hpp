// The bytes a terminal sends, as keys. Sequences: ECMA-48 (CSI), DEC's SS3, and the numbers that xterm, the Linux
// console and rxvt give to editing and function keys (terminfo: kcuu1, khome, kpp, kf1 and the like).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headgate::cli {

enum class KeyKind {
  text,  // one printable character, in Key::text
  up,
  down,
  left,
  right,
  page_up,
  page_down,
  home,
  end,
  enter,
  escape,
  backspace,
  tab,
  f1,
  f6,
  f9,
  f10,
  redraw,  // Ctrl-L
};

struct Key {
  KeyKind kind = KeyKind::text;
  std::string text = {};  // UTF-8

  friend bool operator==(const Key&, const Key&) = default;
};

// Takes bytes in pieces of any size. What is no key of ours (a mouse report, an unknown sequence, bytes that are no
// UTF-8) is passed over whole, and a sequence without an end is given up after 32 bytes.
class KeyReader {
 public:
  [[nodiscard]] std::vector<Key> feed(std::string_view bytes);
  // Nothing came for a while: a lone escape byte was the key.
  [[nodiscard]] std::vector<Key> pause();
  [[nodiscard]] bool waiting() const { return !held_.empty(); }

 private:
  std::string held_;  // the beginning of a sequence or of a character
};

}  // namespace headgate::cli
