// The terminal while a picture is drawn on it: entered and left whole, however the picture ends.
#pragma once

#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "cli/term/frame.hpp"

namespace headgate::cli {

// Whether stdout is a terminal that can place a cursor: TERM is set and not "dumb".
[[nodiscard]] bool can_place_cursor();
// Whether it can, and is large enough for `smallest`.
[[nodiscard]] bool can_draw(FrameSize smallest);
// Whether the locale's characters are UTF-8 (LC_ALL, else LC_CTYPE, else LANG).
[[nodiscard]] bool speaks_utf8();

// Uses the terminal's second screen and hides the cursor; gives both back, also when the process crashes or aborts. One
// at a time.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  [[nodiscard]] FrameSize size() const;
  // False when the terminal is gone.
  bool show(const std::string& frame);
};

// Keys are read as they are pressed and not shown; Ctrl-C and Ctrl-Z are signals as ever. Gives the terminal's own
// manner back, also when the process crashes or aborts. Does nothing where stdin is no terminal. One at a time.
class Keyboard {
 public:
  Keyboard();
  ~Keyboard();
  Keyboard(const Keyboard&) = delete;
  Keyboard& operator=(const Keyboard&) = delete;
};

// While it lives, the signals that concern a terminal (INT, TERM, HUP, QUIT, WINCH, TSTP, CONT) are blocked and come
// out of a descriptor instead. Threads that are started meanwhile have them blocked too. One at a time, not together
// with Interruptions.
class TerminalSignals {
 public:
  TerminalSignals();
  ~TerminalSignals();
  TerminalSignals(const TerminalSignals&) = delete;
  TerminalSignals& operator=(const TerminalSignals&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }
  // Those that have come, without waiting.
  [[nodiscard]] std::vector<int> take() const;
  // Stops the process as SIGTSTP does, and returns when it is continued.
  static void stop();

 private:
  UniqueFd fd_;
};

// While it lives, SIGINT, SIGTERM and SIGHUP only set a flag; the former handlers come back with it. One at a time.
class Interruptions {
 public:
  Interruptions();
  ~Interruptions();
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;

  // The signal that came, 0 for none.
  [[nodiscard]] static int seen();
};

}  // namespace headgate::cli
