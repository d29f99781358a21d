// The terminal while a picture is drawn on it: entered and left whole, however the picture ends.
#pragma once

#include <string>

#include "cli/demo_picture.hpp"

namespace headgate::cli {

// True when stdout is a terminal that can place a cursor (TERM is set and not "dumb") and is large enough.
[[nodiscard]] bool can_draw();

// Uses the terminal's second screen and hides the cursor; gives both back. One at a time.
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
