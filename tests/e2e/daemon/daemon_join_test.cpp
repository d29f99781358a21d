// How a run handles an existing share of its name, and a daemon that is still to start.
#include "daemon_program.hpp"

#include <gtest/gtest.h>

namespace headgate::e2e {
namespace {

TEST(Join, ARunJoinsAShareOfItsNameOrLearnsWhatDiffers) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  const std::string values =
      "--mem 2GiB --host-mem 1GiB --compute 30% --burst 80% --weight 200 --class best-effort --on-oom wait --ttl 8h";
  // The second run ends while the first waits for it, and must not remove the share.
  const Said both =
      cli.shell("$H run --name k " + values + " -- sh -c '$H run --share k -- true; env -u HEADGATE_SHARE -u " +
                "LD_PRELOAD $H run --name k " + values + " --gpu 0 -- echo joined; $H share show k'");
  EXPECT_EQ(both.status, 0) << both.err;
  EXPECT_NE(both.out.find("joined\n"), std::string::npos) << both.out << both.err;
  EXPECT_NE(both.out.find("0 of 2.0 GiB  30 %"), std::string::npos) << both.out << both.err;

  ASSERT_EQ(cli.shell("$H share create k " + values).status, 0);
  const auto run = [&](const std::string& words) { return cli.shell("$H run --name k " + words + " -- echo joined"); };
  for (const char* same : {"", "--mem 2048MiB", "--compute 0.3 --burst 800m", "--ttl 480m", "--on-oom wait=30s",
                           "--gpu auto", "--weight 200 --class best-effort"})
    EXPECT_EQ(run(same).out, "joined\n") << same << ": " << run(same).err;
  for (const auto& [other, differs] : {std::pair{"--mem 3GiB", "--mem 2.0 GiB, asked was --mem 3GiB"},
                                       {"--host-mem 2GiB", "--host-mem 1.0 GiB, asked was --host-mem 2GiB"},
                                       {"--compute 40%", "--compute 30 %, asked was --compute 40%"},
                                       {"--compute 30% --burst 90%", "--burst 80 %, asked was --burst 90%"},
                                       {"--weight 3", "--weight 200, asked was --weight 3"},
                                       {"--class normal", "--class best-effort, asked was --class normal"},
                                       {"--on-oom fail", "--on-oom wait=30s, asked was --on-oom fail"},
                                       {"--ttl 7h", "--ttl 8 h 0 min, asked was --ttl 7h"}}) {
    const Said said = run(other);
    EXPECT_EQ(said.status, 2) << other;
    EXPECT_NE(said.err.find(differs), std::string::npos) << said.err;
    EXPECT_NE(said.err.find("headgate share set k changes them"), std::string::npos) << said.err;
  }
  for (const auto& [said_there, differs] :
       {std::pair{"HEADGATE_MEM=3GiB", "--mem 2.0 GiB, asked was --mem 3.0 GiB (by the environment)"},
        {"CUDA_MEM_LIMIT=3g", "--mem 2.0 GiB, asked was --mem 3.0 GiB (by the environment)"},
        {"HEADGATE_BURST=90%", "--burst 80 %, asked was --burst 90 % (by the environment)"}}) {
    const Said said = cli.shell(std::string(said_there) + " $H run --name k -- echo joined");
    EXPECT_EQ(said.status, 2) << said_there;
    EXPECT_NE(said.err.find(differs), std::string::npos) << said.err;
  }
  EXPECT_EQ(cli.shell("HEADGATE_MEM=2GiB HEADGATE_BURST=80% $H run --name k -- echo joined").out, "joined\n");
}

TEST(Join, AShareGetsTheValuesOfTheEnvironment) {
  const Daemon daemon;
  const Said said = daemon.cli().shell(
      "HEADGATE_MEM=2GiB HEADGATE_COMPUTE=50% HEADGATE_BURST=80% $H run --name k -- "
      "sh -c '$H share show k --json'");
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_TRUE(said.out.contains("\"compute_guarantee_ratio\": 0.5")) << said.out;
  EXPECT_TRUE(said.out.contains("\"compute_ceiling_ratio\": 0.8")) << said.out;
  EXPECT_TRUE(said.out.contains("\"memory_limit_bytes\": 2147483648")) << said.out;
}

// Before, a guarantee of 99 % was committed but one of 100 % was not: such a run got no guarantee, and a second run
// with equal options was refused.
TEST(Join, ARunForAWholeGpuIsPromisedItOrRefused) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create half --mem 1GiB --compute 50% --burst 100%").status, 0);
  EXPECT_EQ(cli.shell("$H run --mem 1GiB -- true").status, 0) << "a run without --compute asks for no guarantee";
  const Said refused = cli.shell("$H run --mem 1GiB --compute 100% -- true");
  EXPECT_EQ(refused.status, 4) << refused.err;
  EXPECT_NE(refused.err.find("asks for a guarantee of 100 %"), std::string::npos) << refused.err;
  ASSERT_EQ(cli.shell("$H share rm half").status, 0);
  const Said both = cli.shell(
      "$H run --name k --mem 1GiB --compute 100% -- sh -c '$H share create more --mem 1GiB --compute 1% 2>&1; "
      "env -u HEADGATE_SHARE -u LD_PRELOAD $H run --name k --mem 1GiB --compute 100% -- echo joined'");
  EXPECT_EQ(both.status, 0) << both.err;
  EXPECT_NE(both.out.find("100 % are promised to 1 share"), std::string::npos) << both.out;
  EXPECT_NE(both.out.find("joined\n"), std::string::npos) << both.out << both.err;
}

TEST(Join, ARunWaitsForARestartingDaemonOrRunsWithout) {
  Daemon daemon;
  const Cli& cli = daemon.cli();
  const auto run = [&](std::vector<std::string> words) {
    std::vector<std::string> line = {HEADGATE_COMMAND, "run", "--name", "k", "--mem", "1GiB"};
    line.insert(line.end(), words.begin(), words.end());
    line.insert(line.end(), {"--", "sh", "-c", "$H share ls | grep -c '^k '; exec true"});
    return Program(line, {{"HEADGATE_RUNTIME_DIR", cli.runtime()},
                          {"H", HEADGATE_COMMAND},
                          {"HEADGATE_SIM_DIR", cli.directory() + "/node"},
                          {"LD_LIBRARY_PATH", SIMULATOR_DIR}});
  };
  for (const std::vector<std::string>& words : {std::vector<std::string>{}, {"--wait"}}) {
    daemon.kill_and_wait();
    Program waits = run(words);
    ASSERT_TRUE(eventually([&] { return waits.errors_so_far().contains("waiting 3 s for it\n"); }));
    daemon.start();
    EXPECT_EQ(waits.wait(), 0) << waits.errors();
    EXPECT_FALSE(waits.errors().contains("is without it")) << waits.errors();
    EXPECT_TRUE(daemon.ask("GET", "/v1/events?share=k&kind=share.created").body.contains(" created the share k"));
  }
  daemon.kill_and_wait();
  Program alone = run({});
  EXPECT_EQ(alone.wait(), 0) << alone.errors();
  EXPECT_TRUE(alone.errors().contains("the share is without it, and is not counted as committed")) << alone.errors();
  Program in_line = run({"--wait"});
  EXPECT_EQ(in_line.wait(), 6) << in_line.errors();
}

}  // namespace
}  // namespace headgate::e2e
