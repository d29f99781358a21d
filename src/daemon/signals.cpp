#include "daemon/signals.hpp"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstring>
#include <initializer_list>
#include <string>

#include "daemon/journal.hpp"

namespace headgate::daemon {
namespace {

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  return set;
}

UniqueFd open_signals() {
  const sigset_t set = set_of({SIGTERM, SIGINT, SIGHUP});
  return UniqueFd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
}

}  // namespace

void Signals::block() {
  const sigset_t set = set_of({SIGTERM, SIGINT, SIGHUP, SIGPIPE});
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Signals::Signals(http::Loop& loop, std::function<void()> reload)
    : signals_(open_signals()), watch_(loop, signals_.get(), [this, &loop, reload = std::move(reload)] {
        signalfd_siginfo info{};
        while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
          if (info.ssi_signo == SIGHUP) {
            reload();
            continue;
          }
          note(std::string("ends: SIG") + ::sigabbrev_np(static_cast<int>(info.ssi_signo)));
          loop.stop();
        }
      }) {}

}  // namespace headgate::daemon
