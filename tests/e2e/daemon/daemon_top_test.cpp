// headgate top and events with a daemon.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "daemon_program.hpp"
#include "terminal.hpp"

namespace headgate::e2e {
namespace {

class DaemonTop : public CliTerminal {};

TEST_F(DaemonTop, ItsSharesAreShownAndLimitsSetByKeys) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create alice --mem 8GiB --compute 50%").status, 0);
  const std::string once = daemon.cli().shell("$H top --once").out;
  EXPECT_NE(once.find(", daemon, SIMULATED"), std::string::npos) << once;
  EXPECT_NE(once.find("alice"), std::string::npos) << once;

  Terminal terminal(daemon.cli(), kSmall);
  terminal.type("$H top --ascii; echo sta\"\"tus=$?\n");
  ASSERT_TRUE(terminal.await("0B/8.0G")) << terminal.seen();
  terminal.type("emem=lots\r");
  ASSERT_TRUE(terminal.await("'lots'")) << terminal.seen();
  terminal.type("emem=12GiB\r");
  ASSERT_TRUE(terminal.await("alice has its new limits")) << terminal.seen();
  ASSERT_TRUE(terminal.await("0B/12.0G")) << terminal.seen();
  terminal.type("q");
  ASSERT_TRUE(terminal.await("status=0")) << terminal.seen();
  terminal.type("$H top --readonly; echo sta\"\"tus=$?\n");
  ASSERT_TRUE(terminal.await("0B/12.0G")) << terminal.seen();
  terminal.type("e");
  EXPECT_TRUE(terminal.await("this is --readonly")) << terminal.seen();
  terminal.type("q");
  ASSERT_TRUE(terminal.await("status=0")) << terminal.seen();
}

TEST_F(DaemonTop, AKilledDaemonIsReportedAndItsSuccessorShown) {
  Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create alice --mem 8GiB").status, 0);
  Terminal terminal(daemon.cli(), kSmall);
  terminal.type("$H top --ascii --interval 100ms; echo sta\"\"tus=$?\n");
  ASSERT_TRUE(terminal.await("0B/8.0G")) << terminal.seen();
  daemon.kill_and_wait();
  ASSERT_TRUE(terminal.await("s old; see: headgate doctor")) << "whole, in 80 columns: " << terminal.seen();
  ASSERT_TRUE(terminal.await("0B/8.0G")) << terminal.seen();
  daemon.start();
  ASSERT_EQ(daemon.cli().shell("$H share create bob --mem 4GiB").status, 0);
  EXPECT_TRUE(terminal.await("0B/4.0G")) << terminal.seen();
  terminal.type("q");
  EXPECT_TRUE(terminal.await("status=0")) << terminal.seen();
}

TEST_F(DaemonTop, EventsAreFollowedAcrossARestart) {
  Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create alice --mem 8GiB").status, 0);
  EXPECT_NE(cli.shell("$H events --since 1h").out.find("alice"), std::string::npos);
  EXPECT_EQ(cli.shell("$H events --kind share.craeted").out,
            "SIMULATED\nno events of kind 'share.craeted'; lately there were: share.created\n");
  EXPECT_EQ(cli.shell("$H events --share alcie").out,
            "SIMULATED\nno events of a share 'alcie'; lately there were: alice\n");
  const auto document = nlohmann::json::parse(cli.shell("$H events --json").out);
  EXPECT_EQ(document.at("schema"), "headgate.events/v1");
  EXPECT_EQ(document.at("simulated"), true);
  EXPECT_EQ(document.at("events").at(0).at("share"), "alice");

  Terminal terminal(cli, kSmall);
  terminal.type("$H events -f\n");
  ASSERT_TRUE(terminal.await("alice")) << terminal.seen();
  for (const char* name : {"bob", "carol", "dora"}) {
    if (std::string(name) == "carol") {
      daemon.kill_and_wait();
      daemon.start();
    }
    ASSERT_EQ(cli.shell("$H share create --mem 4GiB " + std::string(name)).status, 0);
    ASSERT_TRUE(terminal.await(" created the share " + std::string(name))) << terminal.seen();
  }
  terminal.type("\x03");
  terminal.type("echo en\"\"ded\n");
  EXPECT_TRUE(terminal.await("ended")) << terminal.seen();
}

TEST_F(DaemonTop, ARunReportsItsGrantAndItsRefusals) {
  Daemon daemon;
  Terminal terminal(daemon.cli(), {24, 200, 0, 0});
  terminal.type("$H run --mem 2GiB --name t -- " HEADGATE_LOAD " --no-launches --attempt=4GiB --duration=1ms\n");
  ASSERT_TRUE(terminal.await("share t on GPU 0 (H200): 2.0 GiB, no compute limit, SIMULATED")) << terminal.seen();
  EXPECT_TRUE(terminal.await("share t was refused memory once meanwhile: headgate why t")) << terminal.seen();
}

// Without a message, a user that follows events would mistake a silent daemon for a quiet node.
TEST_F(DaemonTop, EachSilenceOfTheDaemonIsShownToFollowers) {
  Daemon daemon;
  Terminal events(daemon.cli(), kSmall), status(daemon.cli(), kSmall);
  events.type("$H events -f\n");
  status.type("$H status --watch=100ms\n");
  ASSERT_TRUE(events.await("SIMULATED")) << events.seen();
  for (int silence = 0; silence < 2; ++silence) {
    ASSERT_TRUE(status.await("q ends it")) << status.seen();
    daemon.kill_and_wait();
    ASSERT_TRUE(events.await("waiting for it, headgate doctor says more")) << events.seen();
    ASSERT_TRUE(status.await("s old; see: headgate doctor")) << status.seen();
    daemon.start();
    ASSERT_TRUE(events.await("headgated answers again")) << events.seen();
  }
}

// A script that reads figures can see in its log when there were none.
TEST_F(DaemonTop, EachSilenceAndReturnIsShownInAPipeToo) {
  Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create alice --mem 8GiB").status, 0);
  const std::map<std::string, std::string> environment = {{"HEADGATE_SOCKET", daemon.socket()}};
  Program events({HEADGATE_COMMAND, "events", "-f"}, environment);
  Program status({HEADGATE_COMMAND, "status", "--watch=100ms"}, environment);
  ASSERT_NE(events.line(), "");
  ASSERT_NE(status.line(), "");
  std::string of_events, of_status;
  const auto both_say = [&](const char* one, const char* other) {
    of_events.clear();
    of_status.clear();
    return eventually([&] {
      of_events += events.errors_so_far();
      of_status += status.errors_so_far();
      return of_events.contains(one) && of_status.contains(other);
    });
  };
  for (int silence = 0; silence < 2; ++silence) {
    daemon.kill_and_wait();
    ASSERT_TRUE(both_say("waiting for it, headgate doctor says more", "headgate: ")) << of_events << "|" << of_status;
    daemon.start();
    ASSERT_TRUE(both_say("headgated answers again", "headgated answers again")) << of_events << "|" << of_status;
  }
}

}  // namespace
}  // namespace headgate::e2e
