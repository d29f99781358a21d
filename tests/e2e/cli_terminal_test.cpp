// headgate run on a terminal: job control as without it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "cli_program.hpp"

namespace headgate::e2e {
namespace {

// A shell with job control on a terminal of its own; what it prints is gathered.
class Terminal {
 public:
  Terminal(const Cli& cli, winsize size) {
    const std::string runtime = "HEADGATE_RUNTIME_DIR=" + cli.runtime(), directory = "D=" + cli.directory();
    pid_ = ::forkpty(&fd_, nullptr, nullptr, &size);
    if (pid_ < 0) std::abort();  // kill(-1) below would end every process there is
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

  // Whether the text appears within a minute, behind what was awaited before.
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

 private:
  int fd_ = -1;
  pid_t pid_ = -1;
  std::string seen_;
  std::size_t from_ = 0;
};

constexpr winsize kSmall = {24, 80, 0, 0};

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

// The echo of what is typed never holds the awaited words: they are put together by the shell.
TEST_F(CliTerminal, CtrlCReachesTheProgramOnce) {
  const Cli cli;
  Terminal terminal(cli, kSmall);
  terminal.type(
      "$H run --sim -- bash -c 'n=0; trap \"n=\\$((n+1))\" INT; echo rea\"\"dy; while [ $n = 0 ]; do sleep 0.02; done; "
      "for i in 1 2 3 4 5 6 7 8 9; do sleep 0.02; done; echo cou\"\"nt=$n; exit 9'; echo sta\"\"tus=$?\n");
  ASSERT_TRUE(terminal.await("ready")) << terminal.seen();
  terminal.type("\x03");
  EXPECT_TRUE(terminal.await("count=1\r\n")) << terminal.seen();
  EXPECT_TRUE(terminal.await("status=9")) << terminal.seen();
}

// The shell stays: one that becomes the sleep loses a signal that comes just then.
TEST_F(CliTerminal, CtrlCEndsAProgramThatDoesNotCatchIt) {
  const Cli cli;
  Terminal terminal(cli, kSmall);
  terminal.type("$H run --sim -- bash -c 'echo rea\"\"dy; sleep 60; :'; echo sta\"\"tus=$?\n");
  ASSERT_TRUE(terminal.await("ready")) << terminal.seen();
  terminal.type("\x03");
  EXPECT_TRUE(terminal.await("status=130")) << terminal.seen();
}

TEST_F(CliTerminal, CtrlZStopsItAndFgContinuesIt) {
  const Cli cli;
  Terminal terminal(cli, kSmall);
  terminal.type("$H run --sim -- bash -c 'echo rea\"\"dy; read x; echo go\"\"t $x; exit 4'\n");
  ASSERT_TRUE(terminal.await("ready")) << terminal.seen();
  terminal.type("\x1a");
  ASSERT_TRUE(terminal.await("Stopped")) << terminal.seen();
  terminal.type("echo she\"\"ll\n");
  ASSERT_TRUE(terminal.await("shell\r\n")) << terminal.seen();
  terminal.type("fg; echo sta\"\"tus=$?\n");
  ASSERT_TRUE(terminal.await("fg")) << terminal.seen();
  terminal.type("word\n");
  EXPECT_TRUE(terminal.await("got word")) << terminal.seen();
  EXPECT_TRUE(terminal.await("status=4")) << terminal.seen();
}

// On a terminal of its own, because the kernel stops nobody in a process group that no shell looks after. That the shell
// sees its job stop says that the program has: the run itself blocks the signal, and stops when its program does.
TEST_F(CliTerminal, AStopSentToTheRunAloneStopsItsProgramAndContinuesIt) {
  const Cli cli;
  Terminal terminal(cli, kSmall);
  terminal.type(
      "set -b; $H run --sim -- bash -c 'echo rea\"\"dy; until [ -e $D/end ]; do sleep 0.01; done; exit 5' &\n");
  ASSERT_TRUE(terminal.await("ready")) << terminal.seen();
  terminal.type("kill -TSTP $!\n");
  ASSERT_TRUE(terminal.await("Stopped")) << terminal.seen();
  terminal.type("touch $D/end; kill -CONT $!\n");
  EXPECT_TRUE(terminal.await("Exit 5")) << terminal.seen();
}

TEST_F(CliTerminal, ViewsFitIntoEightyColumnsAndKeepTheirColoursToTerminals) {
  const Cli cli;
  const std::string name(63, 'n');
  ASSERT_EQ(cli.shell("$H run --sim --mem 1GiB --name " + name + " -- true").status, 0);
  Terminal terminal(cli, kSmall);
  terminal.type("$H status --sim; echo en\"\"d\n");
  ASSERT_TRUE(terminal.await("end\r\n"));
  const std::string text = terminal.seen();
  const auto row = text.find("  nnnn");
  ASSERT_NE(row, std::string::npos) << text;
  EXPECT_LE(text.find("\r\n", row) - row, 80u) << text;
  EXPECT_NE(text.find("nnn...  "), std::string::npos) << text;
  EXPECT_NE(text.find("\x1b[33mSIMULATED"), std::string::npos) << text;
  EXPECT_EQ(cli.shell("$H status --sim").out.find('\x1b'), std::string::npos);
  EXPECT_NE(cli.shell("$H status --sim").out.find(name), std::string::npos) << "whole names where a program reads";
}

}  // namespace
}  // namespace headgate::e2e
