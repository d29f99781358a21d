// What the views report about programs that were refused, that waited, or that run.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli_program.hpp"

namespace headgate::e2e {
namespace {

using nlohmann::json;

// Starts a program that wants all of the GPU in a share of 25 %, and returns once its first launches have waited.
const std::string kBusy =
    "$H run --sim --mem 2GiB --compute 25% --name busy -- ${SIM%/sim}/headgate-load --mem=512MiB --duration=60s "
    "--no-idle-list > $D/load & run=$!; "
    "n=0; until $H why busy --sim --json 2>/dev/null | grep -q '\"throttled_launches\": [1-9]' || [ $n = 600 ]; do "
    "sleep 0.05; n=$((n+1)); done; ";
const std::string kEnd = "; kill -TERM $run; wait $run";

TEST(CliDoctor, LooksAndCreatesNothing) {
  const Cli cli;
  const Said said = cli.shell("export HEADGATE_RUNTIME_DIR=$D/none/below; $H doctor; ls $D");
  EXPECT_NE(said.out.find("/none/below, which the first run makes\n"), std::string::npos) << said.out << said.err;
  EXPECT_EQ(said.out.find("\nnone\n"), std::string::npos) << said.out;
}

// No process is left that would see the driver free the memory, so the view itself has to check.
TEST(CliViews, MemoryOfAnEndedRunIsGoneAtOnceWithoutADaemon) {
  const Cli cli;
  const Said said = cli.shell(
      "$H run --sim --mem 4GiB --name gone -- ${SIM%/sim}/headgate-load --mem=2GiB --no-launches --duration=1ms "
      "--no-idle-list > /dev/null; $H status --sim --json");
  ASSERT_EQ(said.status, 0) << said.err;
  const json now = json::parse(said.out);
  for (const json& share : now.at("shares"))
    for (const json& device : share.at("devices")) EXPECT_EQ(device.at("memory_used_bytes"), 0) << share;
}

TEST(CliExplain, WhyNamesRefusalAskerLimitAndWhatHelps) {
  const Cli cli;
  const Said said = cli.shell(
      "$H run --sim --mem 1GiB --name small -- ${SIM%/sim}/headgate-load --attempt=1025MiB --no-launches "
      "--duration=1ms --no-idle-list > /dev/null; $H why small --sim");
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_TRUE(said.out.starts_with("share small on GPU 0, SIMULATED\n  memory: refused once, last at ")) << said.out;
  EXPECT_NE(said.out.find(" asked for 1025 MiB\n    reason: the share's limit of 1.0 GiB: "), std::string::npos)
      << said.out;
  EXPECT_NE(said.out.find("not caused by neighbours"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("a smaller batch, or --mem 1."), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("compute: no limit; its GPU time is not measured; no launch had to wait"), std::string::npos)
      << said.out;
}

TEST(CliExplain, WhyNamesTheWaitsOfAThrottledShare) {
  const Cli cli;
  const Said said = cli.shell(kBusy + "$H why busy --sim" + kEnd);
  EXPECT_NE(said.out.find("share busy on GPU 0, SIMULATED\n  memory: nothing was refused; "), std::string::npos)
      << said.out << said.err;
  EXPECT_NE(said.out.find(" were in use at one time, limit 2.0 GiB\n"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("  compute: limit 25 %; the GPU was held for "), std::string::npos) << said.out;
  EXPECT_NE(said.out.find(": the share had used its 25 %; not caused by neighbours\n"), std::string::npos) << said.out;
}

TEST(CliExplain, AnAllocationThatTheDriverRefusedWasNotMade) {
  const Cli cli;
  // The share has no limit, so the request fits the share but not the card.
  const Said said = cli.shell(
      "$H run --sim --name wide -- ${SIM%/sim}/headgate-load --mem=1GiB --attempt=200GiB --no-launches --duration=1ms "
      "--no-idle-list > /dev/null; $H status --sim --json");
  const json device = json::parse(said.out).at("shares").at(0).at("devices").at(0);
  EXPECT_GE(device.at("memory_peak_bytes"), 1ull << 30) << device << said.err;
  EXPECT_LT(device.at("memory_peak_bytes"), 2ull << 30) << "with a context" << device;
}

TEST(CliExplain, StatusAndPsUseTheRequestedInterval) {
  const Cli cli;
  const Said said = cli.shell(kBusy +
                              "$H status --sim --interval 500ms --json > $D/status; $H ps --sim --interval 300ms "
                              "--json > $D/ps; $H ps --sim > $D/table; cat $D/table; $H ps --sim --user unknown-user" +
                              kEnd);
  EXPECT_NE(said.out.find("\nno process of the user unknown-user is in a share or on a GPU\n"), std::string::npos)
      << "processes of other users are in shares: " << said.out;
  const json status = json::parse(cli.shell("cat $D/status").out).at("shares").at(0);
  const json& device = status.at("devices").at(0);
  ASSERT_TRUE(device.at("held_ratio").is_number()) << status;
  EXPECT_GT(device.at("held_ratio").get<double>(), 0);
  EXPECT_EQ(status.at("state"), "throttled");
  const json process = json::parse(cli.shell("cat $D/ps").out).at("processes").at(0);
  EXPECT_EQ(process.at("share"), "busy");
  EXPECT_GT(process.at("devices").at(0).at("share_held_ratio").get<double>(), 0);
  EXPECT_NE(said.out.find("BUSY"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("at limit"), std::string::npos) << said.out;
  EXPECT_EQ(cli.shell("$H status --sim --interval 5").status, 2);
}

TEST(CliExplain, DoctorTestsTheLimitAndLeavesNothing) {
  const Cli cli;
  const Said said = cli.shell(
      "export TMPDIR=$D/tmp; mkdir $TMPDIR; $H doctor --sim; echo $?; ls $TMPDIR; ls $HEADGATE_RUNTIME_DIR/shares "
      "2>/dev/null");
  EXPECT_NE(
      said.out.find("\nok    self-test: a program held to 1 GiB was refused 1025 MiB, as it should be (SIMULATED)\n"),
      std::string::npos)
      << said.out;
  EXPECT_TRUE(said.out.ends_with("\n0\n")) << said.out;
}

TEST(CliExplain, DoctorFailsIfTheLimitDoesNotHold) {
  const Cli cli;
  // A whole installation with a wrong library as limiter: programs start without limits.
  const Said said = cli.shell(
      "mkdir -p $D/p/bin $D/p/lib/sim; cp $H $D/p/bin/headgate; cp ${SIM%/sim}/headgate-load $D/p/lib/; cp $SIM/* "
      "$D/p/lib/sim/; "
      "for l in /lib/x86_64-linux-gnu/libm.so.6 /lib/*/libm.so.6 /lib64/libm.so.6; do [ -e $l ] && cp $l "
      "$D/p/lib/libheadgate.so && break; done; $D/p/bin/headgate doctor --sim");
  EXPECT_EQ(said.status, 1);
  EXPECT_NE(
      said.out.find(
          "fail  self-test: a program held to 1 GiB asked for 1025 MiB and got 1.0 GiB: the limit does not hold\n"),
      std::string::npos)
      << said.out;
}

TEST(CliExplain, DoctorNamesAnEnvironmentThatIsRefused) {
  const Cli cli;
  const Said said = cli.shell("CUDA_MEM_LIMIT=0 $H doctor --sim");
  EXPECT_EQ(said.status, 1);
  EXPECT_NE(said.out.find("fail  environment: CUDA_MEM_LIMIT='0' is zero; accepted: bytes"), std::string::npos)
      << said.out;
}

TEST(CliExplain, UsageErrorsAreJsonToo) {
  const Cli cli;
  for (const std::string form : {"--json", "-o json", "--output=jsonl", "-o jsonl"})
    EXPECT_EQ(json::parse(cli.shell("$H status --nonsense " + form).err).at("error").at("code"), "usage") << form;
}

}  // namespace
}  // namespace headgate::e2e
