// A shell with job control on a pseudo-terminal.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "cli_program.hpp"

namespace headgate::e2e {

// A shell with job control on a private terminal; collects its output.
class Terminal {
 public:
  Terminal(const Cli& cli, winsize size) {
    const std::string runtime = "HEADGATE_RUNTIME_DIR=" + cli.runtime(), directory = "D=" + cli.directory();
    pid_ = ::forkpty(&fd_, nullptr, nullptr, &size);
    if (pid_ < 0) std::abort();  // kill(-1) below would end all processes
    if (pid_ == 0) {
      const char* argv[] = {"bash", "--norc", "--noprofile", "--noediting", "-i", nullptr};
      const char* envp[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                            "H=" HEADGATE_COMMAND,
                            "SIM=" SIMULATOR_DIR,
                            "PS1=",
                            "TERM=xterm",
                            runtime.c_str(),
                            directory.c_str(),
                            nullptr};
      ::execve("/bin/bash", const_cast<char* const*>(argv), const_cast<char* const*>(envp));
      ::_exit(99);
    }
  }
  ~Terminal() {
    ::close(fd_);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Terminal(const Terminal&) = delete;

  void type(const std::string& text) const {
    ASSERT_EQ(::write(fd_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  // Waits up to a minute for the text, after what was awaited before; returns true if it appears.
  bool await(const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (;;) {
      if (const auto at = seen_.find(text, from_); at != std::string::npos) {
        from_ = at + text.size();
        return true;
      }
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
      pollfd wanted{fd_, POLLIN, 0};
      if (left <= 0 || ::poll(&wanted, 1, static_cast<int>(left)) <= 0) return false;
      char bytes[4096];
      const ssize_t got = ::read(fd_, bytes, sizeof bytes);
      if (got <= 0) return false;
      seen_.append(bytes, static_cast<std::size_t>(got));
    }
  }
  [[nodiscard]] const std::string& seen() const { return seen_; }
  // SIGWINCH notifies all programs on it.
  void resize(winsize size) const { ASSERT_EQ(::ioctl(fd_, TIOCSWINSZ, &size), 0); }

 private:
  int fd_ = -1;
  pid_t pid_ = -1;
  std::string seen_;
  std::size_t from_ = 0;
};

inline constexpr winsize kSmall = {24, 80, 0, 0};

// Skips the test if there are no pseudo-terminals.
class CliTerminal : public testing::Test {
 protected:
  void SetUp() override {
    int ours = -1, programs = -1;
    if (::openpty(&ours, &programs, nullptr, nullptr, nullptr) != 0)
      GTEST_SKIP() << "this machine has no pseudo-terminals";
    ::close(ours);
    ::close(programs);
  }
};

}  // namespace headgate::e2e
