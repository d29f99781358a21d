#include "load/child.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>

namespace headgate::load {
namespace {

using std::chrono::milliseconds;

TEST(Child, ReturnsOutputAndStatus) {
  const auto end = run_child({.argv = {"sh", "-c", "echo out; echo err >&2"}}, milliseconds(10'000));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->out, "out\n");
  EXPECT_EQ(end->err, "err\n");
}

TEST(Child, FailureIsAnErrorWithItsOutput) {
  const auto end = run_child({.argv = {"sh", "-c", "echo bad luck >&2; exit 7"}}, milliseconds(10'000));
  ASSERT_FALSE(end);
  EXPECT_NE(end.error().message.find("status 7: bad luck"), std::string::npos) << end.error().message;
}

TEST(Child, AMissingProgramIsNamed) {
  const auto end = run_child({.argv = {"/no/such/program"}}, milliseconds(10'000));
  ASSERT_FALSE(end);
  EXPECT_NE(end.error().message.find("/no/such/program"), std::string::npos);
}

TEST(Child, AnEndlessChildIsKilledWithItsChildren) {
  // Every process of the family holds the pipe's write end, so end of file means that all have died.
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  auto child = Child::start({.argv = {"sh", "-c", "sleep 1000 & wait"}});
  ::close(pipe[1]);
  ASSERT_TRUE(child);
  const ChildEnd end = child->wait(std::chrono::steady_clock::now() + milliseconds(300));
  EXPECT_TRUE(end.timed_out);
  EXPECT_EQ(end.status, 128 + SIGKILL);
  pollfd death{pipe[0], POLLIN, 0};
  EXPECT_EQ(::poll(&death, 1, 30'000), 1) << "a grandchild lives on";
  ::close(pipe[0]);
}

TEST(Child, InheritsOurEnvironmentWithChanges) {
  ::setenv("HEADGATE_TEST_KEPT", "1", 1);
  ::setenv("HEADGATE_GONE_A", "1", 1);
  ::setenv("HEADGATE_CHANGED", "1", 1);
  const auto end = run_child({.argv = {"sh", "-c", "echo $HEADGATE_TEST_KEPT,$HEADGATE_GONE_A,$HEADGATE_CHANGED"},
                              .environment = {{"HEADGATE_CHANGED", "2"}},
                              .without = {"HEADGATE_GONE*"}},
                             milliseconds(10'000));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->out, "1,,2\n");
}

TEST(Child, LosesNoOutputBeyondAPipesSize) {
  const auto end = run_child({.argv = {"sh", "-c", "head -c 3000000 /dev/zero"}}, milliseconds(20'000));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->out.size(), 3'000'000u);
}

}  // namespace
}  // namespace headgate::load
