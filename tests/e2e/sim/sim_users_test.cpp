// Uses of a simulated node that a real card would not notice: without standard streams, as another user, with a damaged
// file.
#include <gtest/gtest.h>
#include <unistd.h>

#include "daemon_program.hpp"

namespace headgate::e2e {
namespace {

constexpr const char* kLoad = HEADGATE_LOAD " --launches=2 --no-idle-list";

TEST(SimulatedNode, ClosedStandardStreamsDoNotDamageTheNode) {
  Daemon daemon;
  const Cli& cli = daemon.cli();
  const Said said = cli.shell(std::string("(exec <&- >&-; $H run --mem 1GiB -- ") + kLoad +
                              "); echo status $?; (exec <&- >&-; $H run --mem 1GiB -- sh -c 'for s in 0 1; do test -e "
                              "/proc/$$/fd/$s && echo stream $s is open >&2; done; exec " +
                              kLoad + "'); export LD_LIBRARY_PATH=$SIM HEADGATE_SIM_DIR=$D/node; (exec <&- >&- 2>&-; " +
                              kLoad + "); echo status $?; head -c 8 $D/node/node");
  EXPECT_EQ(said.out, "status 0\nstatus 0\nhdg-node") << said.err;
  EXPECT_FALSE(said.err.contains("is open")) << said.err;
  EXPECT_EQ(daemon.ask("GET", "/readyz").status, 200);
  EXPECT_EQ(daemon.stop(), 0);
}

TEST(SimulatedNode, ADamagedFileIsNamedAndAbortsNoProcess) {
  const Cli cli;
  const Said said = cli.shell("export LD_LIBRARY_PATH=$SIM HEADGATE_SIM_DIR=$D/node; " HEADGATE_LOAD
                              " --duration=20s --gap=1ms --no-idle-list > /dev/null 2> $D/running & "
                              "until test -e $D/node/clients/0; do sleep 0.05; done; sleep 0.1; "
                              "head -c 1000 /dev/zero | tr '\\0' 7 | dd of=$D/node/node conv=notrunc status=none; wait "
                              "$!; echo status $?; cat $D/running; " +
                              std::string(kLoad) + " 2>&1; echo status $?");
  EXPECT_TRUE(said.out.starts_with("status 1\n")) << said.out << said.err;
  EXPECT_TRUE(
      said.out.contains("/node/node is damaged: something else has written into it; end what uses the node and remove"))
      << said.out;
  EXPECT_TRUE(said.out.contains("/node/node is not a simulated node: end what uses the node and remove the file"))
      << said.out;
  EXPECT_FALSE(said.out.contains("status 134")) << said.out;
}

// The node in its default place, created by root's daemon; and a program of another user with read access.
TEST(SimulatedNode, OnlyRootsPublicNodeIsOpenToOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  const Cli cli;
  const Said said = cli.shell(
      "mkdir $D/files; cp " HEADGATE_LOAD
      " $SIM/lib*.so* $D/files; chmod -R a+rX $D/files; chmod 755 $D; cd /; "
      "as_stranger() { LD_LIBRARY_PATH=$D/files HEADGATE_SIM_DIR=$D/run/sim/default setpriv --reuid 65534 --regid "
      "65534 "
      "--clear-groups sh -c \"umask 077; $D/files/headgate-load --launches=2 --processes=2 --no-idle-list\"; }; "
      "echo 'node.callers = \"all\"' > $D/all.toml; umask 077; XDG_STATE_HOME=$D/state " HEADGATE_DAEMON
      " --sim --config $D/all.toml > $D/log 2>&1 & "
      "until $H share ls > /dev/null 2>&1; do kill -0 $! || exit 9; sleep 0.05; done; "
      "as_stranger; $H run --mem 1GiB -- " +
      std::string(kLoad) +
      "; as_stranger; kill $!; wait $!; "
      "HEADGATE_RUNTIME_DIR=$D/own $H run --sim -- true; stat -c 'own %a' $D/own/sim $D/own/sim/default; "
      "export HEADGATE_RUNTIME_DIR=$D/closed; XDG_STATE_HOME=$D/state2 " HEADGATE_DAEMON
      " --sim > $D/log2 2>&1 & until $H share ls > /dev/null 2>&1; do kill -0 $! || exit 9; sleep 0.05; done; "
      "stat -c 'closed %a' $D/closed/sim/default; kill $!; wait $!");
  std::size_t reports = 0;
  for (std::size_t at = 0; (at = said.out.find("headgate.load/v1", at)) != std::string::npos; ++at) ++reports;
  EXPECT_EQ(reports, 3u) << said.out << said.err;
  EXPECT_TRUE(said.out.ends_with("own 700\nown 700\nclosed 700\n")) << said.out << said.err;
}

}  // namespace
}  // namespace headgate::e2e
