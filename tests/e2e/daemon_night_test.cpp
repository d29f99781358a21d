// What an operator meets at three in the morning: a driver that hangs, a database that is gone, a second daemon by hand.
#include <gtest/gtest.h>

#include <filesystem>

#include "daemon_program.hpp"

namespace headgate::e2e {
namespace {

bool says(const Said& said, const std::string& words) { return (said.out + said.err).find(words) != std::string::npos; }

TEST(DaemonNight, WhereTheDriverHangsTheLastPictureIsShownAndWhatWasDoneIsSaid) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create before --mem 1GiB").status, 0);
  ASSERT_EQ(cli.shell("HEADGATE_SIM_DIR=$D/node $H sim fault 'nvml*:delay_us=30000000'").status, 0);
  ASSERT_TRUE(eventually([&] { return daemon.ask("GET", "/readyz").status == 503; }));
  for (const char* words : {"share ls", "status", "top --once", "share create meanwhile --mem 1GiB", "share ls"}) {
    const Said said = cli.shell("timeout 8 $H " + std::string(words));
    EXPECT_EQ(said.status, 0) << words << ": " << said.err;
  }
  EXPECT_EQ(daemon.ask("GET", "/metrics").status, 200);
}

TEST(DaemonNight, ASecondDaemonInTheSamePlaceDoesNotStartAndTheFirstGoesOn) {
  const Daemon daemon;
  const Said second =
      daemon.cli().shell("HEADGATE_SIM_DIR=$D/node ${H}d --sim --socket $D/other --state $D/otherstate");
  EXPECT_EQ(second.status, 5);
  EXPECT_TRUE(says(second, "another headgated works in ")) << second.err;
  EXPECT_TRUE(says(second, "HEADGATE_RUNTIME_DIR and --state")) << second.err;
  EXPECT_EQ(daemon.ask("GET", "/readyz").status, 200);
}

TEST(DaemonNight, SharesWhoseDatabaseIsGoneAreToldOf) {
  Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create lost --mem 1GiB").status, 0);
  daemon.kill_and_wait();
  std::size_t removed = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(cli.directory()))
    if (entry.path().filename() == "headgate.db") removed += std::filesystem::remove(entry.path());
  ASSERT_EQ(removed, 1u);
  daemon.start();
  EXPECT_TRUE(says(cli.shell("$H events --share lost"), "is not in the database"));
}

TEST(DaemonNight, AConfigurationThatIsADirectoryOrWhoseStartWouldFailIsRefused) {
  const Daemon daemon({"--config", "/dev/null"});
  EXPECT_TRUE(says(daemon.cli().shell("$H config check --config /tmp"), "/tmp is no file"));
}

TEST(DaemonNight, AnAnswerSaysHowMuchTimeAShareHasAndATimeThatIsOverIsRefused) {
  const Daemon daemon;
  const auto made = daemon.ask("POST", "/v1/shares", R"({"name":"brief","mem":"1GiB","ttl":"8h"})");
  EXPECT_EQ(made.status, 201);
  EXPECT_TRUE(made.body.find("\"ttl_ns\":288") != std::string::npos ||
              made.body.find("\"ttl_ns\":2879") != std::string::npos)
      << made.body;
  rest_ms(2100);
  const Said over = daemon.cli().shell("$H share set brief --ttl 1s");
  EXPECT_EQ(over.status, 2);
  EXPECT_TRUE(says(over, "is over already: it counts from when the share was made, ")) << over.err;
  EXPECT_TRUE(says(over, "headgate share drain brief")) << over.err;
  std::string many = "\"0\"";
  for (int i = 1; i < 300; ++i) many += ",\"" + std::to_string(i) + "\"";
  const auto refused = daemon.ask("PATCH", "/v1/shares/brief", "{\"users\":[" + many + "]}");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("at most 256 names"), std::string::npos) << refused.body;
  EXPECT_EQ(daemon.ask("PUT", "/v1/quotas", R"({"everyone":false,"mem":"1GiB"})").status, 400);
  EXPECT_EQ(daemon.ask("GET", "/v1/quotas").body.find("everyone\":true"), std::string::npos);
}

}  // namespace
}  // namespace headgate::e2e
