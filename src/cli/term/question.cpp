#include "cli/term/question.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iostream>
#include <string>

namespace headgate::cli {

bool can_ask() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1; }

Answer ask_user(std::string_view question, std::chrono::seconds time) {
  using Clock = std::chrono::steady_clock;
  std::cerr << question << " [y/N] " << std::flush;
  const auto end = Clock::now() + time;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (time.count() > 0 && left.count() <= 0) break;
    pollfd on{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const int ready =
        ::poll(&on, 1, time.count() == 0 ? -1 : static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    if (ready < 0 && errno != EINTR) break;
    if (ready <= 0) continue;
    // A terminal in canonical mode delivers whole lines.
    std::string line;
    if (!std::getline(std::cin, line)) break;
    return line == "y" || line == "Y" || line == "yes" ? Answer::yes : Answer::no;
  }
  std::cerr << "\n";
  return Answer::none;
}

}  // namespace headgate::cli
