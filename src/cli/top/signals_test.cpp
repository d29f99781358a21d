#include "cli/top/state.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

namespace headgate::cli {
namespace {

TEST(Signals, AreKnownByNameAndNumber) {
  EXPECT_EQ(signal_number(""), SIGTERM);
  EXPECT_EQ(signal_number("KILL"), SIGKILL);
  EXPECT_EQ(signal_number("sigstop"), SIGSTOP);
  EXPECT_EQ(signal_number("15"), SIGTERM);
  for (const char* bad : {"0", "32", "-9", "9 ", "NINE", "SIG", "TERMINATE", "99999999999"})
    EXPECT_FALSE(signal_number(bad)) << bad;
  EXPECT_EQ(signal_word(SIGUSR1), "USR1");
}

// A child that waits to be killed.
class Child {
 public:
  Child() {
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::kill(pid_, SIGKILL);
    if (!reaped_) ::waitpid(pid_, nullptr, 0);
  }
  int ended_by() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    reaped_ = true;
    return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
  }
  [[nodiscard]] bool runs() const { return ::waitpid(pid_, nullptr, WNOHANG) == 0; }
  [[nodiscard]] std::uint32_t pid() const { return static_cast<std::uint32_t>(pid_); }

 private:
  pid_t pid_;
  bool reaped_ = false;
};

std::uint64_t unix_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

class SignalsByProc : public testing::Test {
 protected:
  void SetUp() override {
    if (::access("/proc/self/stat", R_OK) != 0) GTEST_SKIP() << "nothing is mounted at /proc";
  }
};

TEST_F(SignalsByProc, ReachTheProcessThatWasShown) {
  Child child;
  ASSERT_TRUE(send_signal(child.pid(), unix_ns(), SIGUSR1));
  EXPECT_EQ(child.ended_by(), SIGUSR1);
}

// A process that started after the snapshot has a PID that belonged to another process in it.
TEST_F(SignalsByProc, DoNotReachALaterProcessWithTheSamePid) {
  const std::uint64_t picture = unix_ns() - 1'000'000'000;
  const Child child;
  const auto sent = send_signal(child.pid(), picture, SIGKILL);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().message, "process " + std::to_string(child.pid()) + " has ended");
  EXPECT_TRUE(child.runs());
}

TEST(Signals, ReportThatAProcessHasEnded) {
  std::uint32_t pid = 0;
  {
    const Child child;
    pid = child.pid();
  }
  const auto sent = send_signal(pid, unix_ns(), SIGTERM);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().message, "process " + std::to_string(pid) + " has ended");
}

}  // namespace
}  // namespace headgate::cli
