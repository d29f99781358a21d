#include "tenancy/runs.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace headgate::tenancy {
namespace {

TEST(Runs, OneIsAliveUntilItEndsAndItsNumberGivenAnewIsSomebodyElse) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const tenancy::Run run = run_of(static_cast<std::uint32_t>(child), "/proc");
  EXPECT_TRUE(is_alive(run, "/proc"));
  EXPECT_TRUE(is_alive({run.pid, 0}, "/proc"));
  EXPECT_TRUE(is_alive(run, "/nowhere")) << "what cannot be told is taken for alive";
  if (run.start_time != 0) {
    EXPECT_FALSE(is_alive({run.pid, run.start_time - 10}, "/proc"));
  }
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(is_alive(run, "/proc"));
  EXPECT_FALSE(is_alive(run, "/nowhere"));
}

}  // namespace
}  // namespace headgate::tenancy
