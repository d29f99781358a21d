#include "cli/term/screen.hpp"

#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/whole_file.hpp"
#include "install/paths.hpp"

namespace headgate::cli {

namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t g_signal = 0;
std::array<struct sigaction, kSignals.size()> g_former;

void remember(int number) { g_signal = number; }

FrameSize terminal_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};  // unknown size: assume 80x24
  }
  return {size.ws_col, size.ws_row};
}

// Restored on a crash; read in signal handlers.
constexpr std::string_view kLeave = "\x1b[0m\x1b[?25h\x1b[?1049l";
volatile std::sig_atomic_t g_drawn = 0, g_raw = 0;
termios g_cooked;

constexpr std::array kCrashes{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

// Makes only async-signal-safe calls (POSIX lists write and tcsetattr).
void restore_and_die(int number) {
  if (g_drawn != 0) (void)!::write(STDOUT_FILENO, kLeave.data(), kLeave.size());
  if (g_raw != 0) ::tcsetattr(STDIN_FILENO, TCSANOW, &g_cooked);
  ::raise(number);  // SA_RESETHAND: now the default action kills us
}

void watch_for_crashes() {
  struct sigaction action{};
  action.sa_handler = restore_and_die;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int number : kCrashes) ::sigaction(number, &action, nullptr);
}

sigset_t terminal_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT}) ::sigaddset(&set, number);
  return set;
}

}  // namespace

bool can_place_cursor() {
  const std::string term = install::environment("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && !term.empty() && term != "dumb";
}

bool can_draw(FrameSize smallest) {
  const FrameSize size = terminal_size();
  return can_place_cursor() && size.columns >= smallest.columns && size.rows >= smallest.rows;
}

bool speaks_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = install::environment(name);
    if (!value.empty()) return ::strcasestr(value.c_str(), "utf-8") != nullptr || ::strcasestr(value.c_str(), "utf8");
  }
  return false;
}

Screen::Screen() {
  watch_for_crashes();
  g_drawn = 1;
  (void)write_all(STDOUT_FILENO, "\x1b[?1049h\x1b[?25l\x1b[2J");
}

Screen::~Screen() {
  (void)write_all(STDOUT_FILENO, kLeave);
  g_drawn = 0;
}

Keyboard::Keyboard() {
  if (::tcgetattr(STDIN_FILENO, &g_cooked) != 0) return;
  watch_for_crashes();
  termios raw = g_cooked;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  g_raw = 1;
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

Keyboard::~Keyboard() {
  if (g_raw == 0) return;
  // TCSAFLUSH: unread keys must not reach the shell.
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &g_cooked);
  g_raw = 0;
}

TerminalSignals::TerminalSignals() {
  const sigset_t set = terminal_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  fd_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

TerminalSignals::~TerminalSignals() {
  (void)take();  // discard the latest signals, which caused the exit
  const sigset_t set = terminal_signals();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

std::vector<int> TerminalSignals::take() const {
  std::vector<int> all;
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) == sizeof info) all.push_back(static_cast<int>(info.ssi_signo));
  return all;
}

void TerminalSignals::stop() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTSTP);
  ::raise(SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);  // the process stops here
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

FrameSize Screen::size() const { return terminal_size(); }

bool Screen::show(const std::string& frame) {
  // Erases to the end of each line instead of clearing the screen, which avoids flicker. A frame is a single write.
  std::string text = "\x1b[H";
  for (const char c : frame) text += c == '\n' ? "\x1b[K\r\n" : std::string(1, c);
  return write_all(STDOUT_FILENO, text + "\x1b[K\x1b[J") == 0;
}

Interruptions::Interruptions() {
  g_signal = 0;
  struct sigaction action{};
  action.sa_handler = remember;
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &g_former[i]);
}

Interruptions::~Interruptions() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &g_former[i], nullptr);
}

int Interruptions::seen() { return g_signal; }

}  // namespace headgate::cli
