// Sets up the terminal for full-screen drawing, and restores it however the program ends.
#pragma once

#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "cli/term/frame.hpp"

namespace headgate::cli {

// Returns true if stdout is a terminal that can position the cursor: TERM is set and not "dumb".
[[nodiscard]] bool can_place_cursor();
// Returns true if it can, and is at least `smallest`.
[[nodiscard]] bool can_draw(FrameSize smallest);
// Returns true if the locale's character set is UTF-8 (LC_ALL, else LC_CTYPE, else LANG).
[[nodiscard]] bool speaks_utf8();

// Switches to the alternate screen and hides the cursor; restores both, also on a crash or abort. One instance at a
// time.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  [[nodiscard]] FrameSize size() const;
  // Returns false if the terminal is gone.
  bool show(const std::string& frame);
};

// Delivers keys immediately and without echo; Ctrl-C and Ctrl-Z still send signals. Restores the terminal mode, also on
// a crash or abort. Does nothing if stdin is not a terminal. One instance at a time.
class Keyboard {
 public:
  Keyboard();
  ~Keyboard();
  Keyboard(const Keyboard&) = delete;
  Keyboard& operator=(const Keyboard&) = delete;
};

// Blocks the terminal's signals (INT, TERM, HUP, QUIT, WINCH, TSTP, CONT) and delivers them through a descriptor
// instead. Threads started meanwhile inherit the mask. One instance at a time, and not together with Interruptions.
class TerminalSignals {
 public:
  TerminalSignals();
  ~TerminalSignals();
  TerminalSignals(const TerminalSignals&) = delete;
  TerminalSignals& operator=(const TerminalSignals&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }
  // Returns the pending signals without waiting.
  [[nodiscard]] std::vector<int> take() const;
  // Stops the process as SIGTSTP does; returns when it is continued.
  static void stop();

 private:
  UniqueFd fd_;
};

// While it lives, SIGINT, SIGTERM and SIGHUP only set a flag; afterwards the old handlers return. One at a time.
class Interruptions {
 public:
  Interruptions();
  ~Interruptions();
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;

  // Returns the signal received, or 0.
  [[nodiscard]] static int seen();
};

}  // namespace headgate::cli
