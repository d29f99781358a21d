// What the daemon keeps of its shares and GPUs across restarts, and how it handles their expiry.
#include "daemon_program.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>

namespace headgate::e2e {
namespace {

std::string policy(const Daemon& daemon) {
  const auto gpu = daemon.snapshot().gpus.at(0);
  return gpu.policy + " by " + gpu.policy_from;
}

TEST(Kept, AGpusPolicyOutlivesTheDaemonUntilReset) {
  Daemon daemon;
  EXPECT_EQ(policy(daemon), "fair by configuration");
  const Said said = daemon.cli().shell("$H gpu policy 0 priority");
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_NE(said.out.find("headgate gpu policy 0 default"), std::string::npos) << said.out;
  EXPECT_EQ(policy(daemon), "priority by command");
  EXPECT_NE(daemon.cli().shell("$H gpu ls").out.find("priority (by command)"), std::string::npos);

  daemon.kill_and_wait();
  daemon.start();
  EXPECT_EQ(policy(daemon), "priority by command");
  // Reading the unchanged configuration again does not override the command.
  daemon.signal(SIGHUP);
  ASSERT_TRUE(eventually([&] { return daemon.ask("GET", "/v1/events").body.contains("config.read"); }));
  EXPECT_EQ(policy(daemon), "priority by command");

  EXPECT_EQ(daemon.cli().shell("$H gpu policy 0 default").status, 0);
  EXPECT_EQ(policy(daemon), "fair by configuration");
  EXPECT_EQ(daemon.stop(), 0);
  daemon.start();
  EXPECT_EQ(policy(daemon), "fair by configuration");
  const Said wrong = daemon.cli().shell("$H gpu policy 0 best");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.err.find("fair, priority, off, or default"), std::string::npos) << wrong.err;
}

// Only its shares are left, and no page says which kind of GPU they used.
TEST(Kept, ViewsShowSimulatedAfterTheDaemonsDeath) {
  const Cli cli;
  const Said said =
      cli.shell(HEADGATE_DAEMON
                " --sim=tiny --state $D/state 2> $D/err & until $H share create a --mem 1GiB > $D/out 2>&1; "
                "do kill -0 $! || exit 9; sleep 0.05; done; kill -9 $!; wait $!; "
                "for view in status ps 'why a' 'top --once'; do $H $view 2> $D/err | grep -c SIMULATED; done");
  EXPECT_EQ(said.out, "1\n1\n1\n1\n") << said.err;
}

// A copy in a directory that is not the simulator's, so that it passes for the real driver.
constexpr const char* kLikeARealNode =
    "mkdir $D/driver; cp $SIM/libnvidia-ml.so.1 $D/driver/; export HEADGATE_SIM_DIR=$($H sim path --sim); "
    "printf '[node]\\nnvml = \"%s/driver/libnvidia-ml.so.1\"\\n' $D > $D/c.toml; ";

TEST(Kept, ADaemonInAPidNamespaceDoesNotStart) {
  if (std::system("unshare -pf --mount-proc true 2>/dev/null") != 0) GTEST_SKIP() << "no pid namespaces here";
  const Cli cli;
  const std::string start =
      std::string("timeout -k 2 20 unshare --kill-child -pf --mount-proc ") + HEADGATE_DAEMON + " --config $D/c.toml";
  const Said said = cli.shell(kLikeARealNode + start);
  EXPECT_EQ(said.status, 6) << said.err;
  EXPECT_NE(said.err.find("--pid=host"), std::string::npos) << said.err;
  EXPECT_NE(said.err.find("node.pid_namespace = \"own\""), std::string::npos) << said.err;

  // The daemon runs if the configuration says that the GPU is the container's, or with a simulated GPU.
  for (const std::string ask :
       {"echo 'pid_namespace = \"own\"' >> $D/c.toml; ", "printf '' > $D/c.toml; set -- --sim; "}) {
    const Said served =
        cli.shell("export HEADGATE_SIM_DIR=$($H sim path --sim); " + ask + start +
                  " \"$@\" & until $H share ls > $D/out 2>&1; do kill -0 $! || break; sleep 0.05; done; cat "
                  "$D/out; kill $!; wait $!");
    EXPECT_NE(served.out.find("there are no shares"), std::string::npos) << served.out << served.err;
  }
}

// docs/backup.md, step by step; python's sqlite3 does what the command's .backup does.
TEST(Kept, LostQuotasAreReportedAndABackupRestoresThem) {
  Daemon daemon;
  const Cli& cli = daemon.cli();
  if (cli.shell("python3 -c 'import sqlite3'").status != 0) GTEST_SKIP() << "there is no Python here";
  ASSERT_EQ(cli.shell("$H share create a --mem 1GiB && $H quota set --user 54321 --shares 4").status, 0);
  const std::string state = cli.directory() + "/state/headgate";
  const std::string backup = "python3 -c \"import sqlite3; sqlite3.connect('" + state +
                             "/headgate.db').backup(sqlite3.connect('" + state + "/backup.db'))\"";
  ASSERT_EQ(cli.shell(backup).status, 0) << "while the daemon runs";
  EXPECT_EQ(daemon.stop(), 0);
  ASSERT_EQ(cli.shell("rm " + state + "/headgate.db*").status, 0);

  daemon.start();
  EXPECT_TRUE(daemon.ask("GET", "/v1/events").body.contains("store.lost"));
  EXPECT_NE(cli.shell("$H quota ls").out.find("there are no quotas"), std::string::npos);
  EXPECT_EQ(daemon.stop(), 0);
  ASSERT_EQ(cli.shell("rm -f " + state + "/headgate.db-wal " + state + "/headgate.db-shm && install -m 0600 " + state +
                      "/backup.db " + state + "/headgate.db")
                .status,
            0);

  daemon.start();
  EXPECT_NE(cli.shell("$H quota ls").out.find("54321"), std::string::npos);
  EXPECT_EQ(daemon.share("a").name, "a");
}

// What the door says, and what everybody sees.
TEST(Kept, AnExpiredShareAdmitsNoneUntilExtended) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create alice --mem 8GiB --ttl 2s").status, 0);
  Program tenant({HEADGATE_COMMAND, "run", "--share", "alice", "--", HEADGATE_LOAD, "--mem=1GiB", "--duration=60s",
                  "--kernels=200us", "--no-idle-list"},
                 {{"HEADGATE_RUNTIME_DIR", cli.runtime()}});
  ASSERT_TRUE(eventually([&] { return daemon.share("alice").processes == 1; }));
  // Snapshots are taken all the time: the latest one is from before the event.
  ASSERT_TRUE(eventually([&] {
    (void)daemon.share("alice");
    return daemon.ask("GET", "/v1/events").body.contains("share.expired");
  }));
  EXPECT_EQ(daemon.share("alice").state, "draining") << "as before the event";
  const Said list = cli.shell("$H share ls; $H why alice");
  EXPECT_NE(list.out.find("expired, waits for 1 program"), std::string::npos) << list.out << list.err;
  EXPECT_NE(list.out.find("headgate share extend alice"), std::string::npos) << list.out;
  EXPECT_TRUE(daemon.share("alice").expired);
  EXPECT_EQ(daemon.share("alice").processes, 1u) << "expiry alone ends no process";
  const std::string enter = std::string("HEADGATE_FAIL_POLICY=closed $H run --share alice -- ") + HEADGATE_LOAD +
                            " --mem=1GiB --duration=1s --kernels=1ms --no-idle-list";
  const Said refused = cli.shell(enter);
  EXPECT_NE(refused.err.find("share 'alice' has expired"), std::string::npos) << refused.err;

  ASSERT_EQ(cli.shell("$H share extend alice 1h").status, 0);
  const Said entered = cli.shell(enter);
  EXPECT_EQ(entered.err.find("has expired"), std::string::npos) << entered.err;
  EXPECT_FALSE(daemon.share("alice").expired);
  EXPECT_NE(daemon.share("alice").state, "draining");
  ::kill(tenant.pid(), SIGTERM);
  tenant.wait();
}

}  // namespace
}  // namespace headgate::e2e
