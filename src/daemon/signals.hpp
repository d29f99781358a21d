// The signals that the daemon takes, as events on its loop.
#pragma once

#include <functional>

#include "base/unique_fd.hpp"
#include "http/loop.hpp"

namespace headgate::daemon {

class Signals {
 public:
  // Blocks them. Call it before the first thread, as all threads inherit that: only the loop gets signals.
  static void block();

  // SIGHUP calls `reload`; SIGTERM and SIGINT stop the loop.
  Signals(http::Loop& loop, std::function<void()> reload);

 private:
  UniqueFd signals_;
  http::Watch watch_;
};

}  // namespace headgate::daemon
