// What the daemon sells of a GPU: never more than there is, and never what others were promised.
#include "daemon_program.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

namespace headgate::e2e {
namespace {

TEST(Sold, TheClassThatNobodyKeepsWaitingIsSoldItsCeilingAndBreaksNoPromise) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create fast --mem 1GiB --class latency").status, 0) << "nobody was promised anything";
  EXPECT_EQ(cli.shell("$H share create paid --mem 1GiB --compute 1%").status, 4);
  ASSERT_EQ(cli.shell("$H share set fast --compute 1% --burst 30%").status, 0);
  ASSERT_EQ(cli.shell("$H share create paid --mem 1GiB --compute 70% --burst 100%").status, 0);
  for (const char* more :
       {"set fast --burst 31%", "set paid --class latency", "create third --mem 1GiB --class latency",
        "create third --mem 1GiB --class latency --compute 1% --burst 100%"}) {
    const Said said = cli.shell("$H share " + std::string(more));
    EXPECT_EQ(said.status, 4) << more;
    EXPECT_NE(said.err.find("its ceiling, which a share of class latency is sold"), std::string::npos) << said.err;
    EXPECT_NE(said.err.find("--over-sell"), std::string::npos) << said.err;
  }
  const auto gpu = daemon.picture().gpus.at(0);
  EXPECT_DOUBLE_EQ(gpu.compute_sold_ratio, 1);
  EXPECT_DOUBLE_EQ(gpu.compute_unsold_ratio.value_or(-1), 0);
  ASSERT_EQ(cli.shell("$H quota set --user root --compute 110%").status, 0);
  EXPECT_EQ(cli.shell("$H share create third --mem 1GiB --class latency --burst 10% --over-sell").status, 5)
      << "a quota counts ceilings";
}

TEST(Sold, WhatAShareHoldsPastItsLoweredLimitIsNotSoldAgain) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create a --mem 100GiB").status, 0);
  Program holder({HEADGATE_COMMAND, "run", "--share", "a", "--", HEADGATE_LOAD, "--mem=80GiB", "--duration=60s",
                  "--kernels=200us", "--no-idle-list"},
                 {{"HEADGATE_RUNTIME_DIR", cli.runtime()}});
  ASSERT_TRUE(eventually([&] { return daemon.share("a").devices.at(0).memory_used_bytes > 80ull << 30; }));
  ASSERT_EQ(cli.shell("$H share set a --mem 1GiB").status, 0);
  EXPECT_EQ(cli.shell("$H free --fit 100GiB").status, 4);
  EXPECT_EQ(cli.shell("$H share create b --mem 100GiB").status, 4);
  ::kill(holder.pid(), SIGTERM);
  holder.wait();
  EXPECT_TRUE(eventually([&] { return cli.shell("$H share create b --mem 100GiB").status == 0; }));
}

TEST(Sold, WhatEveryoneMayEnterOrWasSoldTwiceIsTakenBackByTheCommandToo) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create a --mem 1GiB --everyone --over-sell").status, 0);
  ASSERT_TRUE(daemon.share("a").everyone && daemon.share("a").over_sell);
  ASSERT_EQ(cli.shell("$H share set a --mem 2GiB --everyone=no").status, 0);
  EXPECT_FALSE(daemon.share("a").everyone);
  EXPECT_TRUE(daemon.share("a").over_sell) << "what is not named stays";
  ASSERT_EQ(cli.shell("$H share set a --over-sell=no").status, 0);
  EXPECT_FALSE(daemon.share("a").over_sell);
  ASSERT_EQ(cli.shell("$H share set a --everyone").status, 0);
  EXPECT_TRUE(daemon.share("a").everyone);
  const Said unclear = cli.shell("$H share set a --everyone=none");
  EXPECT_EQ(unclear.status, 2);
  EXPECT_NE(unclear.err.find("--everyone"), std::string::npos) << unclear.err;
  EXPECT_TRUE(daemon.share("a").everyone);
}

}  // namespace
}  // namespace headgate::e2e
