// What the daemon keeps for its shares and GPUs over its own end, and what it does with their time.
#include "daemon_program.hpp"

#include <gtest/gtest.h>
#include <signal.h>

namespace headgate::e2e {
namespace {

std::string policy(const Daemon& daemon) {
  const auto gpu = daemon.picture().gpus.at(0);
  return gpu.policy + " by " + gpu.policy_from;
}

TEST(Kept, AGpusPolicyOutlivesTheDaemonAndGoesBackToTheConfigurationsWhenToldTo) {
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
  // The configuration is read again, and says what it said.
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

}  // namespace
}  // namespace headgate::e2e
