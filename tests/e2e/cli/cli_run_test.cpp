// headgate run: what the program sees, and what its caller gets back.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli_program.hpp"

namespace headgate::e2e {
namespace {

using nlohmann::json;

TEST(CliRun, TheProgramKeepsItsOutputAndStatus) {
  const Cli cli;
  const Said said = cli.shell("$H run --sim --mem 1GiB -- sh -c 'echo out; echo err >&2; exit 7'");
  EXPECT_EQ(said.status, 7);
  EXPECT_EQ(said.out, "out\n");
  EXPECT_EQ(said.err, "err\n") << "not a terminal, so nothing of ours";
  EXPECT_EQ(cli.shell("$H run --sim -- sh -c 'kill -KILL $$'").status, 137);
}

TEST(CliRun, TheFirstLineHasShareCardLimitsLevelAndSimulation) {
  const Cli cli;
  const Said said = cli.shell("$H run -v --sim --mem 25% --compute 25% --name train -- true");
  EXPECT_EQ(said.err, "headgate: share train on GPU 0 (H200): 35.3 GiB, 25 %, SIMULATED\n");
  EXPECT_EQ(cli.shell("$H run -v -q --sim -- true").err, "");
}

// Like a GPU that shares the host's memory: CUDA's total replaces NVML's.
TEST(CliRun, AGpuWithoutNvmlMemoryHasCudasTotal) {
  const Cli cli;
  ASSERT_EQ(cli.shell("$H sim fault --sim 'nvmlDeviceGetMemoryInfo:fail=3,nvmlDeviceGetMemoryInfo_v2:fail=3'").status,
            0);
  EXPECT_EQ(cli.shell("$H run --sim --mem 25% --name quarter -- true").status, 0);
  EXPECT_EQ(cli.shell("$H run --sim --mem 8GiB --name bytes -- true").status, 0);
  EXPECT_EQ(cli.shell("$H run --sim --mem 800GiB -- true").status, 4);
  const json status = json::parse(cli.shell("$H status --sim --json").out);
  EXPECT_GT(status.at("gpus").at(0).at("memory_total_bytes"), 140ull << 30);
  EXPECT_GT(status.at("shares").at(1).at("devices").at(0).at("memory_limit_bytes"), 35ull << 30);
}

TEST(CliRun, AVeryLowLimitIsAcceptedWithARemark) {
  const Cli cli;
  const Said said = cli.shell("$H run -v --sim --compute 2% --name low -- true");
  EXPECT_EQ(said.status, 0);
  EXPECT_NE(said.err.find(
                "\nheadgate: a compute limit of 2 % is low: after a kernel of 10 ms the next launch waits 490.0 ms"),
            std::string::npos)
      << said.err;
  EXPECT_EQ(cli.shell("$H run -v --sim --compute 5% -- true").err.find("is low"), std::string::npos);
  EXPECT_EQ(cli.shell("$H run -q -v --sim --compute 2% -- true").err, "");
  EXPECT_EQ(cli.shell("$H run --sim --compute 2% -- true").err, "") << "a script that did not ask is told nothing";
}

TEST(CliRun, TheProgramSeesOnlyOurVariables) {
  const Cli cli;
  const Said said = cli.shell(
      "CUDA_MEM_LIMIT_0=2g HEADGATE_COMPUTE=30% CUDA_DISABLE_CONTROL=true LD_PRELOAD=libc.so.6 LD_LIBRARY_PATH=/opt/x "
      "$H run --sim --name a -- env");
  EXPECT_EQ(said.status, 0) << said.err;
  for (const char* gone : {"CUDA_MEM_LIMIT_0=", "HEADGATE_COMPUTE=", "CUDA_DISABLE_CONTROL="})
    EXPECT_EQ(said.out.find(gone), std::string::npos) << gone;
  EXPECT_NE(said.out.find("LD_PRELOAD=libc.so.6:/"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("/lib/sim:/opt/x\n"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("CUDA_VISIBLE_DEVICES=GPU-"), std::string::npos);
  EXPECT_NE(said.out.find("HEADGATE_SHARE=a\n"), std::string::npos);
  const json share = json::parse(cli.shell("$H status --sim --json").out).at("shares").at(0);
  EXPECT_EQ(share.at("devices").at(0).at("memory_limit_bytes"), 2ull << 30)
      << "the environment's limit became the share's";
  EXPECT_EQ(share.at("devices").at(0).at("compute_ceiling_ratio"), 0.3);
}

TEST(CliRun, AnUnnamedShareEndsWithItsProgramAndANamedOneStays) {
  const Cli cli;
  EXPECT_EQ(cli.shell("$H run --sim --mem 1GiB -- true").status, 0);
  EXPECT_EQ(cli.shell("ls $HEADGATE_RUNTIME_DIR/shares").out, "");
  EXPECT_EQ(cli.shell("$H run --sim --mem 1GiB --name kept -- true").status, 0);
  EXPECT_EQ(cli.shell("ls $HEADGATE_RUNTIME_DIR/shares").out, "kept\n");
  EXPECT_EQ(cli.shell("$H run -v --sim --name kept -- true").err,
            "headgate: share kept on GPU 0 (H200): 1.0 GiB, no compute limit, SIMULATED\n");
}

TEST(CliRun, OtherValuesForAShareInUseAreRefused) {
  const Cli cli;
  const Said said = cli.shell(
      "mkfifo $D/up $D/end; $H run --sim --name a --mem 1GiB -- sh -c 'echo > $D/up; read x < $D/end' & read x < "
      "$D/up; "
      "$H run --sim --name a --mem 2GiB -- true; echo status $?; $H run --sim --name a --mem 1GiB -- echo joined; $H "
      "run --sim --name a -- echo joined too; "
      "echo > $D/end; wait $!; $H run -v --sim --name a --mem 2GiB -- echo again");
  EXPECT_EQ(said.out, "status 2\njoined\njoined too\nagain\n") << said.err;
  EXPECT_NE(
      said.err.find("headgate: the share 'a' is in use with other values: it has 1.0 GiB, no compute limit on GPU-"),
      std::string::npos)
      << said.err;
  EXPECT_NE(said.err.find("share a on GPU 0 (H200): 2.0 GiB"), std::string::npos) << said.err;
}

// As inference servers and launchers set it for their workers.
TEST(CliRun, VisibleDevicesOfAProgramCountTheSharesGpus) {
  const Cli cli;
  const auto given = [&](const char* before) {
    return cli.shell("$H run --sim=l40s-x2 --gpu 1 --mem 2GiB -- sh -c '" + std::string(before) +
                     "${SIM%/sim}/headgate-load --attempt=1GiB --no-launches --duration=1ms --no-idle-list'");
  };
  for (const char* before : {"CUDA_VISIBLE_DEVICES=0 ", "unset CUDA_VISIBLE_DEVICES; ", "",
                             "CUDA_VISIBLE_DEVICES=$(echo $CUDA_VISIBLE_DEVICES | tr A-Z a-z) "}) {
    const Said said = given(before);
    EXPECT_NE(said.out.find("\"given_bytes\":1073741824"), std::string::npos) << before << said.out << said.err;
  }
  const Said none = given("CUDA_VISIBLE_DEVICES=1 ");
  EXPECT_NE(none.status, 0) << "the share has no second GPU: " << none.out;
}

TEST(CliRun, ASecondShareOnTheCardIsCalledApproximate) {
  const Cli cli;
  const Said said = cli.shell(
      "mkfifo $D/up $D/end; $H run --sim --name a --mem 1GiB --compute 25% -- sh -c 'echo > $D/up; read x < $D/end' & "
      "read x < $D/up; "
      "$H run -v --sim --name b --mem 1GiB --compute 50% -- true; $H free --sim --fit 1GiB,75% --json; $H free --sim "
      "--fit 1GiB,76%; echo $?; echo > $D/end; wait");
  EXPECT_EQ(said.err,
            "headgate: share b on GPU 0 (H200): 1.0 GiB, 50 %, SIMULATED; compute is approximate: 1 other "
            "share on the card and no daemon\n");
  EXPECT_NE(said.out.find("\"compute_uncommitted_ratio\": 0.75"), std::string::npos) << said.out;
  EXPECT_TRUE(said.out.ends_with("\n4\n")) << said.out;
}

TEST(CliRun, SignalsReachTheProgram) {
  const Cli cli;
  EXPECT_EQ(
      cli.shell("$H run --sim -- sh -c 'trap \"exit 42\" TERM; kill -TERM $PPID; while :; do sleep 0.01; done'").status,
      42);
  EXPECT_EQ(cli.shell("$H run --sim -- sh -c 'kill -INT $PPID; while :; do sleep 0.01; done'").status, 130);
  // Job control without a terminal: stopping and continuing the run stops and continues the program.
  EXPECT_EQ(cli.shell("$H run --sim -- bash -c 'trap \"trap \\\"exit 43\\\" CONT; kill -CONT $PPID\" TSTP; "
                      "kill -TSTP $PPID; while :; do sleep 0.01; done'")
                .status,
            43);
}

TEST(CliRun, AnUnholdableProgramStartsOnlyIfInsisted) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  const Cli cli;
  const std::string make = "cp /bin/echo $D/p && chown 65534 $D/p && chmod 4755 $D/p; ";
  const Said refused = cli.shell(make + "$H run --sim --mem 1GiB -- $D/p hello");
  EXPECT_EQ(refused.status, 6);
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(refused.err, "headgate: cannot hold it: " + cli.directory() +
                             "/p is setuid: the loader ignores preloaded libraries in it\n" +
                             "          --allow-unenforced starts it without limits; a container with its own GPU, MPS "
                             "or MIG can hold it\n");
  const Said insisted = cli.shell(make + "$H run --sim --allow-unenforced --mem 1GiB -- $D/p hello 2>&1");
  EXPECT_NE(insisted.out.find("hello\n"), std::string::npos) << insisted.out;
  EXPECT_TRUE(insisted.out.starts_with("headgate: NOT HELD: ")) << insisted.out;
  const Said formerly = cli.shell(make + "$H run --sim --allow-unheld --mem 1GiB -- $D/p hello 2>&1");
  EXPECT_TRUE(formerly.out.starts_with("headgate: --allow-unheld is now called --allow-unenforced")) << formerly.out;
  EXPECT_NE(formerly.out.find("hello\n"), std::string::npos) << formerly.out;
}

}  // namespace
}  // namespace headgate::e2e
