// Programs that leave their share, by outliving their run or by lowering a resource limit. They must not run without
// limits, whatever the fail policy: that only covers an absent daemon.
#include <gtest/gtest.h>

#include "daemon_program.hpp"

namespace headgate::e2e {
namespace {

TEST(DaemonUnheld, AProgramThatOutlivesItsRunIsRefusedTheGpu) {
  const Daemon daemon;
  const Said said = daemon.cli().shell(
      "$H run --mem 2GiB --name short -- sh -c 'setsid sh -c \"until test -e $D/go; do sleep 0.05; done; " HEADGATE_LOAD
      " --attempt=20GiB --launches=1 > $D/left 2>&1; touch $D/done\" < /dev/null > /dev/null 2>&1 &'; "
      "$H share ls; touch $D/go; until test -e $D/done; do sleep 0.05; done; cat $D/left");
  EXPECT_TRUE(said.out.contains("there are no shares")) << said.out << said.err;
  EXPECT_TRUE(said.out.contains("the share short is gone: its run has ended, or it was removed")) << said.out;
  EXPECT_FALSE(said.out.contains("NOT HELD")) << said.out;
}

TEST(DaemonUnheld, AProgramWithFewDescriptorsIsHeldOrRefused) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create few --mem 16GiB").status, 0);
  const Said said = daemon.cli().shell(
      "for n in 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo files $n; $H run --share few -- sh -c "
      "\"ulimit -n $n; exec " HEADGATE_LOAD " --attempt=30GiB --launches=1 --no-idle-list\" 2>&1; done");
  EXPECT_FALSE(said.out.contains("NOT HELD")) << said.out;
  std::size_t ran = 0, held = 0;
  for (std::size_t at = 0; (at = said.out.find("headgate.load/v1", at)) != std::string::npos; ++at) ++ran;
  for (std::size_t at = 0; (at = said.out.find("\"total_bytes\":17179869184", at)) != std::string::npos; ++at) ++held;
  EXPECT_GT(ran, 0u) << said.out;
  EXPECT_EQ(ran, held) << said.out;
  EXPECT_TRUE(said.out.contains("as many files open as it may")) << said.out;
  EXPECT_FALSE(said.out.contains("is not yours")) << said.out;
  const std::string events = daemon.ask("GET", "/v1/events").body;
  EXPECT_FALSE(events.contains("tenant.lied")) << events;
}

}  // namespace
}  // namespace headgate::e2e
