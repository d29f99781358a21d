// What the commands say of a daemon: one that answers, one that is stopped or has ended, and none.
#include "daemon_program.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace headgate::e2e {
namespace {

TEST(Daemon, TheDoctorAsksItAndNamesEachFault) {
  Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create a --mem 1GiB").status, 0);
  const Said well = daemon.cli().shell("$H doctor");
  EXPECT_EQ(well.status, 0) << well.out << well.err;
  for (const char* line : {"\nok    driver ", "answers at ", " (SIMULATED): 1 share, 0 processes\n",
                           "ok    its socket has mode 0660, owner ", "; you administer it\n", "\nok    level hook: "})
    EXPECT_NE(well.out.find(line), std::string::npos) << line << well.out;
  EXPECT_EQ(well.out.find("rm -r"), std::string::npos) << "its shares are not the user's to remove" << well.out;

  // A directory at the socket's path, so that the daemon cannot create it again each second.
  const Said torn = daemon.cli().shell(
      "S=$HEADGATE_RUNTIME_DIR/shares/a/tenant.sock; for i in $(seq 1000); do rm -f $S && mkdir $S && break; done; $H "
      "doctor --json");
  EXPECT_EQ(torn.status, 1);
  EXPECT_NE(torn.out.find("programs cannot enter the share a: there is no socket"), std::string::npos) << torn.out;
  EXPECT_NE(torn.out.find("\"daemon\": true"), std::string::npos) << torn.out;

  daemon.kill_and_wait();
  const Said dead = daemon.cli().shell("$H doctor --sim; $H doctor");
  EXPECT_NE(dead.out.find("no process listens: the daemon has ended\n"), std::string::npos) << dead.out;
  EXPECT_EQ(dead.out.find("rm -r"), std::string::npos)
      << "the share belongs to the daemon, which may come back: " << dead.out;
}

TEST(Daemon, AnEndedOrStoppedDaemonIsNamedFirst) {
  Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create a --mem 1GiB").status, 0);
  daemon.signal(SIGSTOP);
  const Said stopped = cli.shell("HEADGATE_SOCKET=" + daemon.socket() + " $H share ls; echo $?; $H share ls; echo $?");
  daemon.signal(SIGCONT);
  EXPECT_EQ(stopped.out, "3\n3\n");
  EXPECT_NE(stopped.err.find(": it is stopped, or hangs\n"), std::string::npos) << stopped.err;
  EXPECT_EQ(stopped.err.find("start it:"), std::string::npos) << "it runs" << stopped.err;

  daemon.kill_and_wait();
  const std::string ended = "headgate: headgated has ended: no process listens at its socket ";
  const Said events = cli.shell("$H events");
  EXPECT_EQ(events.status, 3) << events.out;
  EXPECT_EQ(events.out, "") << "what happened, the daemon knows";
  EXPECT_TRUE(events.err.starts_with(ended)) << events.err;
  for (const char* word : {"", "share ls", "ps", "why", "top --once"}) {
    const Said said = cli.shell("$H " + std::string(word));
    EXPECT_NE((said.err + said.out).find("headgated has ended: no process listens at its socket"), std::string::npos)
        << word << said.out << said.err;
  }
  EXPECT_TRUE(cli.shell("$H").err.starts_with(ended));
  // The same if the socket is given and this user's runtime directory is a different one.
  for (const char* word : {"", "ps", "top --once"}) {
    const Said said =
        cli.shell("HEADGATE_SOCKET=" + daemon.socket() + " HEADGATE_RUNTIME_DIR=/nowhere $H " + std::string(word));
    EXPECT_EQ(said.status, 0) << word << said.err;
    EXPECT_NE((said.err + said.out).find("what follows is read from the pages in "), std::string::npos) << word;
    if (*word == 0) {
      EXPECT_NE(said.out.find("a "), std::string::npos) << said.out;
    }
  }
  EXPECT_NE(cli.shell("HEADGATE_SOCKET=" + daemon.socket() + " $H run --wait -- true").err.find("waiting 3 s for it\n"),
            std::string::npos);
  EXPECT_EQ(cli.shell("HEADGATE_SOCKET=" + daemon.socket() + " $H run --mem 1GiB -- true").status, 3)
      << "a command with a given socket does not go past the daemon";
}

TEST(Daemon, FreeAndAdmissionAgreeOnWhatFits) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create a --mem 10GiB --compute 40%").status, 0);
  const auto room = nlohmann::json::parse(daemon.cli().shell("$H free --json").out).at("gpus").at(0);
  const std::uint64_t left = room.at("memory_uncommitted_bytes").get<std::uint64_t>();
  EXPECT_DOUBLE_EQ(room.at("compute_uncommitted_ratio").get<double>(), 0.6);
  EXPECT_EQ(daemon.cli().shell("$H free --fit 1GiB,60%").status, 0);
  EXPECT_EQ(daemon.cli().shell("$H free --fit 1GiB,61%").status, 4);
  EXPECT_EQ(daemon.cli().shell("$H share create b --compute 61% --mem 1GiB").status, 4);
  EXPECT_EQ(daemon.cli().shell("$H share create b --mem " + std::to_string(left + 1) + "B").status, 4);
  EXPECT_EQ(daemon.cli().shell("$H share create b --mem " + std::to_string(left) + "B --compute 60%").status, 0);
}

TEST(Daemon, EventsAreFilteredByShareAndKind) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create a --mem 1GiB && $H share create b --mem 1GiB && $H share rm b").status,
            0);
  const auto lines = [&](const std::string& words) {
    const std::string out = daemon.cli().shell("$H events " + words).out;
    EXPECT_TRUE(out.starts_with("SIMULATED\n")) << out;
    return std::ranges::count(out, '\n') - 1;
  };
  EXPECT_EQ(lines("--share b"), 2);
  EXPECT_EQ(lines("--share b --kind share.rem"), 1);
  EXPECT_EQ(lines("--kind share.created"), 2);
  const Said metrics = daemon.cli().shell("$H metrics | grep -c '^headgate_node_shares 1'; $H api schema | head -c 1");
  EXPECT_EQ(metrics.out, "1\n{") << metrics.err;
}

// As if the driver were installed in a separate container.
TEST(Daemon, TheDriversLibraryMayBeAnywhere) {
  const Cli cli;
  const Said said = cli.shell(
      "printf '[node]\\nnvml = \"/nowhere/libnvidia-ml.so.1\"\\n' > $D/none.toml; "
      "printf '[node]\\nnvml = \"%s/libnvidia-ml.so.1\"\\n' $SIM > $D/c.toml; export HEADGATE_SIM_DIR=$($H sim path "
      "--sim); " +
      std::string(HEADGATE_DAEMON) + " --config $D/none.toml; echo status $?; " + std::string(HEADGATE_DAEMON) +
      " --config $D/c.toml & until $H share ls > $D/out 2>&1; do sleep 0.05; done; cat $D/out; kill $!; wait $!");
  EXPECT_NE(said.err.find("/nowhere/libnvidia-ml.so.1"), std::string::npos) << said.err;
  EXPECT_NE(said.out.find("status 3\n"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("SIMULATED"), std::string::npos) << said.out << said.err;
}

TEST(Daemon, MessagesWithoutItNameTheStartCommand) {
  const Cli cli;
  const Said said = cli.shell("$H share ls");
  EXPECT_EQ(said.status, 3);
  EXPECT_NE(said.err.find("headgated does not run here"), std::string::npos) << said.err;
  EXPECT_EQ(cli.shell("HEADGATE_SOCKET=/nowhere/x.sock $H share ls").status, 3);
}

}  // namespace
}  // namespace headgate::e2e
