// A share on a shared GPU learns the true cause of each of its waits.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "daemon_program.hpp"

namespace headgate::e2e {
namespace {

TEST(DaemonWaits, AShareThatTakesTurnsAndOneAtItsLimitShowIt) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(
      cli.shell("$H share create a --mem 16GiB && $H share create b --mem 16GiB --compute 40% --burst 90%").status, 0);
  ASSERT_EQ(cli.shell("$H share create held --mem 16GiB --compute 10% --burst 10%").status, 0);
  const std::string load = " -- ${SIM%/sim}/headgate-load --kernels=1ms --duration=4s --no-idle-list > /dev/null & ";
  // A lone share without a limit waits for no neighbour, and its own queue does not count as a wait.
  EXPECT_EQ(cli.shell("$H run --share held" + load + "wait").status, 0);
  const std::string held = cli.shell("$H why held").out;
  EXPECT_NE(held.find(": the share had used its 10 %; not caused by neighbours\n"), std::string::npos) << held;
  EXPECT_EQ(held.find("other shares had the GPU"), std::string::npos) << held;

  const Said both =
      cli.shell("$H run --share a" + load + "$H run --share b" + load +
                "until grep -q 'shares GPU' $D/top && ! grep -q 'at limit' $D/top; do "  // the later one begins alone
                "kill -0 $! || break; $H top --once > $D/top; done; "
                "wait; cat $D/top");
  EXPECT_EQ(both.status, 0) << both.err;
  EXPECT_NE(both.out.find("shares GPU"), std::string::npos) << both.out;
  EXPECT_EQ(both.out.find("at limit"), std::string::npos) << both.out;
  for (const std::string name : {"a", "b"}) {
    const std::string why = cli.shell("$H why " + name).out;
    EXPECT_NE(why.find(": other shares had the GPU, and the share waited for its turn\n"), std::string::npos) << why;
    EXPECT_EQ(why.find("not caused by neighbours\n    "), std::string::npos) << why;
    const auto device = daemon.share(name).devices.at(0);
    // b has 70 % of the GPU by its guarantee and half of the rest, so most of its waits are for its own work.
    EXPECT_GT(device.waited_turn_ns, device.throttled_ns / 20) << name;
    EXPECT_EQ(device.waited_turn_ns + device.waited_ceiling_ns + device.waited_work_ns + device.waited_pause_ns,
              device.throttled_ns)
        << name;
  }
  const std::string page = daemon.ask("GET", "/metrics").body;
  EXPECT_NE(page.find("\nheadgate_share_waited_seconds_total{share=\"a\""), std::string::npos);
  EXPECT_NE(page.find(",cause=\"turn\"} "), std::string::npos);
}

// Under the policy priority a best-effort share gets nothing while another has work. It is not idle then, and gets no
// notice.
TEST(DaemonWaits, AShareThatNeverGetsATurnWaitsAndIsNotIdle) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H gpu policy 0 priority && $H share create hi --mem 16GiB && "
                      "$H share create lo --mem 16GiB --class best-effort")
                .status,
            0);
  const auto load = [&](const std::string& share) {
    return "$H run --share " + share +
           " -- ${SIM%/sim}/headgate-load --kernels=1ms --no-idle-list --duration=60s > /dev/null & echo $! >> "
           "$D/pids; ";
  };
  ASSERT_EQ(cli.shell("( " + load("hi") + load("lo") + ")").status, 0);
  const auto waited_ns = [&] { return daemon.share("lo").devices.at(0).waited_turn_ns; };
  ASSERT_TRUE(eventually([&] { return waited_ns() > 1'000'000'000; }));
  ASSERT_EQ(cli.shell("$H share set lo --idle-notice 1s").status, 0);
  const std::uint64_t since_ns = waited_ns();
  EXPECT_TRUE(eventually([&] {
    const snapshot::Share lo = daemon.share("lo");
    EXPECT_NE(lo.state, "idle");
    EXPECT_LT(lo.idle_ns, 1'000'000'000u);
    return lo.devices.at(0).waited_turn_ns > since_ns + 3'000'000'000;
  }));
  const std::string events = cli.shell("$H events --share lo --kind share.idle").out;
  EXPECT_EQ(events.find("has used no GPU"), std::string::npos) << events;
  const std::string why = cli.shell("$H why lo").out;
  EXPECT_NE(why.find(": other shares had the GPU, and the share waited for its turn\n"), std::string::npos) << why;
  EXPECT_EQ(why.find("no launch had to wait"), std::string::npos) << why;
  EXPECT_EQ(cli.shell("kill $(cat $D/pids)").status, 0);
  // A program that runs on after its node's directory is removed is taken for dead and waits for ever.
  EXPECT_TRUE(eventually(
      [&] { return cli.shell("for p in $(cat $D/pids); do if kill -0 $p; then exit 1; fi; done").status == 0; }));
}

}  // namespace
}  // namespace headgate::e2e
