#include "cli/screen.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "cli/paths.hpp"

namespace headgate::cli {

namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t g_signal = 0;
std::array<struct sigaction, kSignals.size()> g_former;

void remember(int number) { g_signal = number; }

bool write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

FrameSize terminal_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};  // a terminal that does not say is taken for 80x24
  }
  return {size.ws_col, size.ws_row};
}

}  // namespace

bool can_draw() {
  const std::string term = environment("TERM");
  const FrameSize size = terminal_size();
  return ::isatty(STDOUT_FILENO) == 1 && !term.empty() && term != "dumb" && size.columns >= kSmallestFrame.columns &&
         size.rows >= kSmallestFrame.rows;
}

Screen::Screen() { write_all("\x1b[?1049h\x1b[?25l\x1b[2J"); }
Screen::~Screen() { write_all("\x1b[?25h\x1b[?1049l"); }

FrameSize Screen::size() const { return terminal_size(); }

bool Screen::show(const std::string& frame) {
  // Line by line with "erase to the end": no flicker, and nothing is left of a longer line. Frames are one write.
  std::string text = "\x1b[H";
  for (const char c : frame) {
    text += c == '\n' ? "\x1b[K\r\n" : std::string(1, c);
  }
  return write_all(text + "\x1b[K\x1b[J");
}

Interruptions::Interruptions() {
  g_signal = 0;
  struct sigaction action{};
  action.sa_handler = remember;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &action, &g_former[i]);
  }
}

Interruptions::~Interruptions() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &g_former[i], nullptr);
  }
}

int Interruptions::seen() { return g_signal; }

}  // namespace headgate::cli
