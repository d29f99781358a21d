// What the daemon commits of a GPU: never more than exists, and never what is committed to others.
#include "api/test_reply.hpp"
#include "daemon_program.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "terminal.hpp"

namespace headgate::e2e {
namespace {

TEST(Committed, ALatencyShareCommitsItsCeiling) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create fast --mem 1GiB --class latency").status, 0) << "no share was promised anything";
  EXPECT_EQ(cli.shell("$H share create paid --mem 1GiB --compute 1%").status, 4);
  ASSERT_EQ(cli.shell("$H share set fast --compute 1% --burst 30%").status, 0);
  ASSERT_EQ(cli.shell("$H share create paid --mem 1GiB --compute 70% --burst 100%").status, 0);
  for (const char* more :
       {"set fast --burst 31%", "set paid --class latency", "create third --mem 1GiB --class latency",
        "create third --mem 1GiB --class latency --compute 1% --burst 100%"}) {
    const Said said = cli.shell("$H share " + std::string(more));
    EXPECT_EQ(said.status, 4) << more;
    EXPECT_NE(said.err.find("its ceiling, which counts as promised"), std::string::npos) << said.err;
    EXPECT_NE(said.err.find("--overcommit"), std::string::npos) << said.err;
  }
  const auto gpu = daemon.snapshot().gpus.at(0);
  EXPECT_DOUBLE_EQ(gpu.compute_committed_ratio, 1);
  EXPECT_DOUBLE_EQ(gpu.compute_uncommitted_ratio.value_or(-1), 0);
  ASSERT_EQ(cli.shell("$H quota set --user root --compute 110%").status, 0);
  EXPECT_EQ(cli.shell("$H share create third --mem 1GiB --class latency --burst 10% --overcommit").status, 5)
      << "a quota counts ceilings";
}

// A tenant of the share that takes commands by lines and reports what it sees and gets.
class OversubscribedTenant {
 public:
  OversubscribedTenant(const Daemon& daemon, const std::string& share)
      : program_({TENANT_PATHS}, {{"HEADGATE_SHARE", share},
                                  {"HEADGATE_SHARE_DIR", daemon.cli().runtime() + "/shares/" + share},
                                  {"HEADGATE_RUNTIME_DIR", daemon.cli().runtime()},
                                  {"HEADGATE_SIM_DIR", daemon.cli().directory() + "/node"},
                                  {"LD_LIBRARY_PATH", SIMULATOR_DIR},
                                  {"LD_PRELOAD", HEADGATE_LIMITER}}) {
    EXPECT_EQ(program_.line(), "0");
  }
  std::string ask(const std::string& what) {
    program_.say(what);
    return program_.line();
  }
  int taken_quarters() {
    int taken = 0;
    while (taken < 20 && ask("take alloc 268435456").starts_with("0 ")) ++taken;
    return taken;
  }

 private:
  Program program_;
};

TEST(Committed, AnOversubscribedShareMayExceedItsCard) {
  constexpr std::uint64_t kMiB = 1 << 20, kOnCard = (2048 - 512 - 128) * kMiB, kWhole = 3072 * kMiB;
  const Daemon daemon({}, "base = \"tiny\"\nname = \"small\"\n");  // 2 GiB
  const Cli& cli = daemon.cli();
  const Said refused = cli.shell("$H share create big --mem 3GiB");
  EXPECT_EQ(refused.status, 4);
  EXPECT_NE(refused.err.find("--oversubscribe"), std::string::npos) << refused.err;
  ASSERT_EQ(cli.shell("$H share create big --mem 3GiB --oversubscribe").status, 0);
  const auto device = [&] { return daemon.share("big").devices.at(0); };
  EXPECT_EQ(device().memory_limit_bytes, kOnCard);
  EXPECT_EQ(device().host_limit_bytes, kWhole - kOnCard);
  EXPECT_TRUE(daemon.share("big").oversubscribe);
  {
    OversubscribedTenant tenant(daemon, "big");
    EXPECT_EQ(tenant.ask("size"), std::to_string(kWhole));
    // 256 MiB each: five fit on the card with the context, six go to the host.
    EXPECT_EQ(tenant.taken_quarters(), 11);
    EXPECT_TRUE(eventually([&] { return device().host_used_bytes == 6 * 256 * kMiB; })) << device().host_used_bytes;
    EXPECT_NE(cli.shell("$H why big").out.find("host memory: 1.5 GiB of 1.6 GiB"), std::string::npos)
        << cli.shell("$H why big").out;
    ASSERT_EQ(cli.shell("$H share set big --oversubscribe=no").status, 0);
    EXPECT_TRUE(eventually([&] { return tenant.ask("size") == std::to_string(kOnCard); }));
  }
  ASSERT_TRUE(eventually([&] { return cli.shell("$H share rm big").status == 0; }));
  // A run under the daemon, configured with another limiter's variables.
  const Said run =
      cli.shell("CUDA_MEM_LIMIT=3g CUDA_OVERSUBSCRIBE=true $H run -- sh -c 'echo size | " TENANT_PATHS "'");
  EXPECT_EQ(run.out, "0\n" + std::to_string(kWhole) + "\n") << run.err;
}

TEST(Committed, RebalanceSwapsPromisesInOneStepOrChangesNone) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create a --mem 1GiB --compute 20% --burst 100%").status, 0);
  ASSERT_EQ(cli.shell("$H share create b --mem 1GiB --compute 80% --burst 100%").status, 0);
  EXPECT_EQ(cli.shell("$H share set a --compute 80%").status, 4);
  const Said said = cli.shell("$H share rebalance a=80% b=20%");
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_NE(said.out.find("80 %"), std::string::npos) << said.out;
  EXPECT_DOUBLE_EQ(daemon.share("a").devices.at(0).compute_guarantee_ratio, 0.8);
  EXPECT_DOUBLE_EQ(daemon.share("b").devices.at(0).compute_guarantee_ratio, 0.2);
  const Said refused = cli.shell("$H share rebalance b=30% a=80%");
  EXPECT_EQ(refused.status, 4) << refused.err;
  EXPECT_EQ(cli.shell("$H share rebalance a=10% nowhere=20%").status, 2);
  EXPECT_EQ(cli.shell("$H share rebalance a=10% b").status, 2);
  EXPECT_EQ(cli.shell("$H share rebalance a=10% a=20%").status, 2);
  EXPECT_DOUBLE_EQ(daemon.share("a").devices.at(0).compute_guarantee_ratio, 0.8) << "nothing was changed";
  const auto reply = daemon.ask("PATCH", "/v1/shares", R"({"a":{"compute":"50%"},"b":{"compute":"50%"}})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(api::objection(daemon.ask("GET", "/v1/openapi.json").body, "changeShares", 200, reply.body), "");
}

TEST(Committed, RefusesToVoidPromisesWithoutConsent) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  const auto policy = [&] { return daemon.snapshot().gpus.at(0).policy; };
  ASSERT_EQ(cli.shell("$H share create low --mem 1GiB --compute 30% --class best-effort").status, 0) << "under fair";
  EXPECT_EQ(cli.shell("$H gpu policy 0 off && $H gpu policy 0 fair").status, 0) << "it has the GPU alone";
  ASSERT_EQ(cli.shell("$H share create paid --mem 1GiB --compute 50%").status, 0);
  const Said off = cli.shell("$H gpu policy 0 off < /dev/null");
  EXPECT_EQ(off.status, 2);
  for (const char* part : {"low (30 % of GPU-", "paid (50 % of GPU-", "nothing was changed; --yes"})
    EXPECT_NE(off.err.find(part), std::string::npos) << off.err;
  EXPECT_EQ(policy(), "fair");
  const std::string target = "/v1/gpus/" + daemon.snapshot().gpus.at(0).uuid;
  const auto refused = daemon.ask("PATCH", target, R"({"policy":"priority"})");
  EXPECT_EQ(refused.status, 409) << refused.body;
  EXPECT_NE(refused.body.find("low (30 %"), std::string::npos) << refused.body;
  EXPECT_EQ(refused.body.find("paid (50 %"), std::string::npos) << "class normal keeps its promise under priority";
  EXPECT_EQ(cli.shell("$H gpu policy 0 priority --yes < /dev/null").status, 0);
  EXPECT_EQ(policy(), "priority");

  const Said low = cli.shell("$H share set paid --class best-effort < /dev/null");
  EXPECT_EQ(low.status, 2);
  EXPECT_NE(low.err.find("a promise void: paid (50 % of GPU-"), std::string::npos) << low.err;
  EXPECT_EQ(daemon.share("paid").devices.at(0).priority_class, "normal");
  EXPECT_EQ(cli.shell("$H share create more --mem 1GiB --compute 5% --class best-effort < /dev/null").status, 2);
  EXPECT_EQ(cli.shell("$H share create more --mem 1GiB --class best-effort").status, 0) << "it is promised nothing";
  EXPECT_EQ(cli.shell("$H share set low --mem 2GiB").status, 0) << "it was so before";
  EXPECT_EQ(cli.shell("$H share set paid --class best-effort -y").status, 0);
  EXPECT_EQ(daemon.share("paid").devices.at(0).priority_class, "best-effort");
}

TEST(Committed, AsksOnATerminalWhetherPromisesMayBecomeVoid) {
  const Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create a --mem 1GiB --compute 50% && $H share create b --mem 1GiB").status, 0);
  Terminal terminal(daemon.cli(), {.ws_row = 24, .ws_col = 200, .ws_xpixel = 0, .ws_ypixel = 0});
  terminal.type("$H gpu policy 0 off\n");
  ASSERT_TRUE(terminal.await("a (50 % of GPU-"));
  ASSERT_TRUE(terminal.await("[y/N]"));
  terminal.type("n\n");
  ASSERT_TRUE(terminal.await("nothing was changed"));
  EXPECT_EQ(daemon.snapshot().gpus.at(0).policy, "fair");
  terminal.type("$H gpu policy 0 off\n");
  ASSERT_TRUE(terminal.await("[y/N]"));
  terminal.type("y\n");
  ASSERT_TRUE(terminal.await("has the policy off"));
  EXPECT_EQ(daemon.snapshot().gpus.at(0).policy, "off");
}

// Under the policy priority, a higher class that always has work leaves almost nothing.
TEST(Committed, APromiseThatIsNotKeptIsAnEventWithItsCause) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create low --mem 4GiB --compute 50% --burst 100% --class best-effort").status, 0);
  ASSERT_EQ(cli.shell("$H share create high --mem 4GiB").status, 0);
  ASSERT_EQ(cli.shell("$H gpu policy 0 priority --yes").status, 0);
  const auto load = [&](const char* share) {
    return std::vector<std::string>{HEADGATE_COMMAND, "run",           "--share",        share,           "--",
                                    HEADGATE_LOAD,    "--kernels=1ms", "--sync=depth:8", "--duration=60s"};
  };
  const std::map<std::string, std::string> environment = {{"HEADGATE_RUNTIME_DIR", cli.runtime()}};
  Program low(load("low"), environment), high(load("high"), environment);
  EXPECT_TRUE(eventually([&] {
    return cli.shell("$H events --kind share.short").out.find("a share of a higher class is at work") !=
           std::string::npos;
  }));
  const auto device = daemon.share("low").devices.at(0);
  EXPECT_GT(device.short_ratio.value_or(0), 0.02);
  EXPECT_GT(device.short_ns, 0u);
  const Said why = cli.shell("$H why low");
  EXPECT_NE(why.out.find("in the last 10 s: promised 50 %, had "), std::string::npos) << why.out;
  EXPECT_NE(why.out.find("reason: the GPU's policy is priority"), std::string::npos) << why.out;
  EXPECT_NE(cli.shell("$H status").out.find("promised 50 %, had "), std::string::npos);
  EXPECT_NE(daemon.ask("GET", "/metrics").body.find("headgate_share_short_seconds_total{share=\"low\""),
            std::string::npos);
  ::kill(low.pid(), SIGTERM);
  ::kill(high.pid(), SIGTERM);
  low.wait();
  high.wait();
}

TEST(Committed, MemoryAboveALoweredLimitIsNotCommittedAgain) {
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

TEST(Committed, EveryoneAndOvercommitCanBeTurnedOff) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  ASSERT_EQ(cli.shell("$H share create a --mem 1GiB --everyone --overcommit").status, 0);
  ASSERT_TRUE(daemon.share("a").everyone && daemon.share("a").overcommit);
  ASSERT_EQ(cli.shell("$H share set a --mem 2GiB --everyone=no").status, 0);
  EXPECT_FALSE(daemon.share("a").everyone);
  EXPECT_TRUE(daemon.share("a").overcommit) << "what is not named stays";
  ASSERT_EQ(cli.shell("$H share set a --overcommit=no").status, 0);
  EXPECT_FALSE(daemon.share("a").overcommit);
  ASSERT_EQ(cli.shell("$H share set a --everyone").status, 0);
  EXPECT_TRUE(daemon.share("a").everyone);
  const Said unclear = cli.shell("$H share set a --everyone=none");
  EXPECT_EQ(unclear.status, 2);
  EXPECT_NE(unclear.err.find("--everyone"), std::string::npos) << unclear.err;
  EXPECT_TRUE(daemon.share("a").everyone);
}

}  // namespace
}  // namespace headgate::e2e
