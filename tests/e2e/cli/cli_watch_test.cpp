// Watched views: redrawn in the same place on a terminal, appended in a pipe.
#include <gtest/gtest.h>

#include <string>

#include "cli_program.hpp"
#include "terminal.hpp"

namespace headgate::e2e {
namespace {

constexpr const char* kLeaves = "\x1b[?25h\x1b[?1049l";

class CliWatch : public CliTerminal {};

TEST_F(CliWatch, RedrawsInPlaceUntilCtrlC) {
  const Cli cli;
  Terminal terminal(cli, kSmall);
  terminal.type("stty -a > $D/before; $H --sim --watch=20ms; echo sta\"\"tus=$?\n");
  ASSERT_TRUE(terminal.await("\x1b[?1049h")) << terminal.seen();
  ASSERT_TRUE(terminal.await("headgate status, every 20ms, at ")) << terminal.seen();
  ASSERT_TRUE(terminal.await("SIMULATED")) << terminal.seen();
  ASSERT_TRUE(terminal.await("\x1b[H")) << "drawn again: " << terminal.seen();
  terminal.type("\x03");
  ASSERT_TRUE(terminal.await(kLeaves)) << terminal.seen();
  ASSERT_TRUE(terminal.await("status=0")) << terminal.seen();
  terminal.type("stty -a > $D/after; cmp $D/before $D/after && echo sa\"\"me\n");
  EXPECT_TRUE(terminal.await("same")) << terminal.seen();
}

TEST_F(CliWatch, QEndsItAndAResizedTerminalIsRedrawn) {
  const Cli cli;
  Terminal terminal(cli, kSmall);
  terminal.type("$H gpu ls --sim --watch=60m -o wide; echo sta\"\"tus=$?\n");
  ASSERT_TRUE(terminal.await("q ends it")) << terminal.seen();
  terminal.resize({24, 30, 0, 0});
  ASSERT_TRUE(terminal.await("headgate gpu ls, every 60m, a~")) << terminal.seen();
  terminal.type("q");
  ASSERT_TRUE(terminal.await(kLeaves)) << terminal.seen();
  EXPECT_TRUE(terminal.await("status=0")) << terminal.seen();
}

TEST_F(CliWatch, CtrlZRestoresTheTerminalAndFgRedraws) {
  const Cli cli;
  Terminal terminal(cli, kSmall);
  terminal.type("$H free --sim --watch; echo sta\"\"tus=$?\n");
  ASSERT_TRUE(terminal.await("SIMULATED")) << terminal.seen();
  terminal.type("\x1a");
  ASSERT_TRUE(terminal.await("Stopped")) << terminal.seen();
  terminal.type("fg; echo sta\"\"tus=$?\n");
  ASSERT_TRUE(terminal.await("\x1b[?1049h")) << terminal.seen();
  ASSERT_TRUE(terminal.await("SIMULATED")) << terminal.seen();
  terminal.type("\x03");
  EXPECT_TRUE(terminal.await("status=0")) << terminal.seen();
}

TEST(CliWatchPipe, PrintsViewsInSequenceUntilInterrupted) {
  const Cli cli;
  const Said said = cli.shell(
      "$H ps --sim --watch=10ms > $D/out & n=0; until [ $(grep -c '^$' $D/out) -ge 3 ] || [ $n = 3000 ]; do sleep "
      "0.01; "
      "n=$((n+1)); done; kill -INT $!; wait $!; echo status=$?; head -n 5 $D/out");
  EXPECT_EQ(said.out, "status=0\nSIMULATED\nno process is in a share\n\nSIMULATED\nno process is in a share\n")
      << said.err;
}

TEST(CliWatchPipe, JsonlAndCsvAreLinesWithoutGapsAndOneHeading) {
  const Cli cli;
  const Said said = cli.shell(
      "for f in jsonl csv; do $H gpu ls --sim --watch=10ms -o $f > $D/$f & n=0; until [ $(grep -c GPU- $D/$f) -ge 3 ] "
      "|| "
      "[ $n = 3000 ]; do sleep 0.01; n=$((n+1)); done; kill -INT $!; wait $!; done; grep -c '^$' $D/jsonl $D/csv | cut "
      "-d: "
      "-f2; grep -c ^taken_unix_ns $D/csv; grep -vc headgate.gpu/v1 $D/jsonl");
  EXPECT_EQ(said.out, "0\n0\n1\n0\n") << said.err;
}

TEST(CliWatchPipe, AFirstFailureIsAnError) {
  const Cli cli;
  const Said said = cli.shell("$H share ls --watch");
  EXPECT_EQ(said.status, 3);
  EXPECT_TRUE(said.err.starts_with("headgate: headgated does not run here\n")) << said.err;
  EXPECT_EQ(cli.shell("$H ps --sim --gpu 9 --watch").status, 2);
}

}  // namespace
}  // namespace headgate::e2e
