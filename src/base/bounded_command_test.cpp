#include "base/bounded_command.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace headgate {
namespace {

using std::chrono::milliseconds;

BoundedCommand shell(const std::string& line, milliseconds timeout = milliseconds(20'000)) {
  return {.words = {"sh", "-c", line}, .timeout = timeout};
}

TEST(BoundedCommand, GivesInputAndEnvironmentAndReadsBothOutputs) {
  BoundedCommand command = shell("cat; echo \"$NAME\" >&2; exit 3");
  command.input = "from the caller\n";
  command.environment = {"NAME=its value", "PATH=/usr/bin:/bin"};
  const auto outcome = run_bounded(command);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_FALSE(outcome->timed_out);
  EXPECT_EQ(WEXITSTATUS(outcome->status), 3);
  EXPECT_EQ(outcome->output, "from the caller\nits value\n");
}

TEST(BoundedCommand, StopsAtItsTimeoutWhateverItPrints) {
  for (const char* line : {"exec sleep 60", "exec yes"}) {
    const auto outcome = run_bounded(shell(line, milliseconds(50)));
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_TRUE(outcome->timed_out) << line;
    EXPECT_LE(outcome->output.size(), 64u << 10) << line;
  }
}

TEST(BoundedCommand, DoesNotWaitForBackgroundProcesses) {
  BoundedCommand command = shell("(exec sleep 20) & echo started");
  command.grace = milliseconds(0);
  const auto outcome = run_bounded(command);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_FALSE(outcome->timed_out);
  EXPECT_EQ(outcome->output, "started\n");
}

TEST(BoundedCommand, GivesALongInput) {
  BoundedCommand command = shell("wc -c");
  command.input.assign(1 << 20, 'x');
  const auto outcome = run_bounded(command);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->output, "1048576\n");
}

TEST(BoundedCommand, KeepsNoOutputThatItShows) {
  BoundedCommand command = shell("echo shown; kill -9 $$");
  command.shows_output = true;
  testing::internal::CaptureStdout();
  const auto outcome = run_bounded(command);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "shown\n");
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->output, "");
  EXPECT_EQ(outcome->ending(), "ended by signal 9");
}

TEST(BoundedCommand, NamesAMissingProgram) {
  const auto missing = run_bounded({.words = {"/nothing/of/that/name"}});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("/nothing/of/that/name"), std::string::npos);
}

}  // namespace
}  // namespace headgate
