// Decodes terminal input into keys. Sequences: ECMA-48 (CSI), DEC's SS3, and the codes that xterm, the Linux console
// and rxvt use for editing and function keys (terminfo: kcuu1, khome, kpp, kf1 and the like).
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

// Accepts bytes in pieces of any size. Skips whatever is not a known key (mouse reports, unknown sequences, invalid
// UTF-8); gives up an unterminated sequence after 32 bytes.
class KeyReader {
 public:
  [[nodiscard]] std::vector<Key> feed(std::string_view bytes);
  // Call after a pause in the input: a pending escape byte is then the key itself.
  [[nodiscard]] std::vector<Key> pause();
  [[nodiscard]] bool waiting() const { return !held_.empty(); }

 private:
  std::string held_;  // an incomplete sequence or character
};

}  // namespace headgate::cli
