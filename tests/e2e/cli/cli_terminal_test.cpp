// headgate run on a terminal: job control works as without headgate.
#include <gtest/gtest.h>

#include <string>

#include "cli_program.hpp"
#include "terminal.hpp"

namespace headgate::e2e {
namespace {

// The shell assembles the awaited words, so the echo of the typed line never contains them.
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

// The shell itself waits, because a shell that has just forked, or is about to exec, may lose a signal.
TEST_F(CliTerminal, CtrlCEndsAProgramThatDoesNotCatchIt) {
  const Cli cli;
  Terminal terminal(cli, kSmall);
  terminal.type("$H run --sim -- bash -c 'echo rea\"\"dy; read nothing'; echo sta\"\"tus=$?\n");
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

// Runs on a terminal because the kernel does not stop processes of an orphaned process group. If the shell sees its job
// stop, the program has stopped: the run blocks the signal and stops only after its program.
TEST_F(CliTerminal, AStopOfTheRunAloneStopsItsProgramToo) {
  const Cli cli;
  Terminal terminal(cli, kSmall);
  terminal.type(
      "set -b; $H run --sim -- bash -c 'echo rea\"\"dy; until [ -e $D/end ] || [ ! -d $D ]; do sleep 0.01; done; exit "
      "5' &\n");
  ASSERT_TRUE(terminal.await("ready")) << terminal.seen();
  terminal.type("kill -TSTP $!\n");
  ASSERT_TRUE(terminal.await("Stopped")) << terminal.seen();
  terminal.type("touch $D/end; kill -CONT $!\n");
  EXPECT_TRUE(terminal.await("Exit 5")) << terminal.seen();
}

TEST_F(CliTerminal, ViewsFitEightyColumnsAndColourTerminalsOnly) {
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
  EXPECT_NE(text.find("nnn~  "), std::string::npos) << text;
  EXPECT_NE(text.find("\x1b[33mSIMULATED"), std::string::npos) << text;
  EXPECT_EQ(cli.shell("$H status --sim").out.find('\x1b'), std::string::npos);
  EXPECT_NE(cli.shell("$H status --sim").out.find(name), std::string::npos) << "whole names where a program reads";
}

}  // namespace
}  // namespace headgate::e2e
