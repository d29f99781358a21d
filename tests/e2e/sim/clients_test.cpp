// Popular programs on the simulated node, without and with a share: nvidia-smi, Python, ffmpeg.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cli_program.hpp"

namespace headgate::e2e {
namespace {

bool there(const char* path) { return ::access(path, X_OK) == 0; }

// The real nvidia-smi of Debian 12, unpacked by dev/real-parts; $SMI in each line.
class NvidiaSmi : public testing::Test {
 protected:
  void SetUp() override {
    if (!there(NVIDIA_SMI)) GTEST_SKIP() << "dev/real-parts has not been run";
  }
  [[nodiscard]] Said shell(const std::string& line) const { return cli_.shell("S=" NVIDIA_SMI "; " + line); }
  // Runs `line` while the programs of two shares hold 1 and 2 GiB of memory.
  [[nodiscard]] Said beside_two_shares(const std::string& line) const {
    const std::string tenant = " -- ${SIM%/sim}/headgate-load --no-launches --duration=60s --no-idle-list --mem=";
    return shell("$H run --sim --mem 8GiB --name a" + tenant + "1GiB >/dev/null 2>&1 & a=$!; " +
                 "$H run --sim --mem 8GiB --name b" + tenant + "2GiB >/dev/null 2>&1 & b=$!; " +
                 "n=0; until [ $($H sim truth --json | grep -c '\"memory_bytes\": [12].*,') = 2 ] || [ $n = 300 ]; do "
                 "sleep 0.05; n=$((n+1)); done; " +
                 line + "; s=$?; kill $a $b; wait; exit $s");
  }
  Cli cli_;
};

std::string cell(const std::string& text) {
  const std::size_t from = text.find_first_not_of(" \n"), to = text.find_last_not_of(" \n");
  return from == std::string::npos ? "" : text.substr(from, to - from + 1);
}

TEST_F(NvidiaSmi, EveryViewWorksOverTheSimulator) {
  for (const char* view : {"", "-L", "-q", "-q -x", "pmon -c 1", "dmon -c 1", "topo -m"}) {
    const Said said = shell(std::string("$H run --sim=l40s-x2 --gpu all -- $S ") + view);
    EXPECT_EQ(said.status, 0) << view << said.out << said.err;
    EXPECT_EQ(said.err, "") << view;
    EXPECT_EQ(said.out.find("ERR!"), std::string::npos) << view << said.out;
    EXPECT_EQ(said.out.find("Unknown Error"), std::string::npos) << view << said.out;
  }
  EXPECT_NE(shell("$H run --sim=l40s-x2 --gpu all -- $S -L").out.find("GPU 1: NVIDIA L40S (UUID: GPU-"),
            std::string::npos);
}

TEST_F(NvidiaSmi, TheSlicesOfADividedCardAreListed) {
  const std::string run = "$H run --sim=$D/cut.toml -- $S ";
  const Said said =
      shell("echo 'mig = [\"3g.71gb\", \"1g.18gb\"]' >$D/cut.toml; " + run + "-L; " + run + "; " + run + "-q");
  EXPECT_EQ(said.status, 0) << said.out << said.err;
  EXPECT_EQ(said.err, "");
  for (const char* line : {"\n  MIG 3g.71gb     Device  0: (UUID: MIG-", "\n  MIG 1g.18gb     Device  1: (UUID: MIG-",
                           "|  0    1   0   0  |               0MiB / 71882MiB  | 48",
                           "|  0    2   0   1  |               0MiB / 17970MiB  | 16",
                           "        Current                           : Enabled"})
    EXPECT_NE(said.out.find(line), std::string::npos) << line << said.out;
  EXPECT_EQ(said.out.find("ERR!"), std::string::npos) << said.out;
}

// nvidia-smi shows N/A for what it does not get. Only fields that no card of this kind has may be missing.
TEST_F(NvidiaSmi, EveryFieldOfQueryGpuIsAnsweredIfTheCardHasIt) {
  std::ifstream names(QUERY_GPU_FIELDS);
  std::string fields, name;
  std::vector<std::string> asked;
  while (std::getline(names, name)) {
    asked.push_back(name);
    fields += (fields.empty() ? "" : ",") + name;
  }
  ASSERT_GT(asked.size(), 100U);
  const Said said = shell("$H run --sim -- $S --format=csv,noheader,nounits --query-gpu=" + fields);
  ASSERT_EQ(said.status, 0) << said.out;
  std::istringstream cells(said.out);
  std::vector<std::string> values;
  for (std::string one; std::getline(cells, one, ',');) values.push_back(cell(one));
  ASSERT_EQ(values.size(), asked.size()) << said.out;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto begins = [&](const char* with) { return asked[i].starts_with(with); };
    const bool lacking = begins("vgpu_") || begins("addressing") || begins("driver_model") || begins("inforom.pwr") ||
                         begins("reset_status") || begins("gom.") || begins("fan.") || begins("retired_pages") ||
                         begins("temperature.gpu.tlimit") || begins("protected_memory") || begins("fabric.") ||
                         asked[i].ends_with("register_file") || asked[i].ends_with("texture_memory") ||
                         asked[i].ends_with("cbu");
    EXPECT_EQ(values[i] == "[N/A]", lacking) << asked[i] << " is " << values[i];
  }
}

TEST_F(NvidiaSmi, AShareSeesOnlyItsLimitUseAndProcesses) {
  const Said said = beside_two_shares(
      "$H run --sim --name a -- $S; $H run --sim --name a -- $S --query-compute-apps=used_memory "
      "--format=csv,noheader; $H run --sim --name a -- $S pmon -c 1 | grep -c headgate-load");
  EXPECT_EQ(said.status, 0) << said.out;
  EXPECT_NE(said.out.find("1544MiB /  8192MiB"), std::string::npos) << said.out;
  EXPECT_EQ(said.out.find("2568MiB"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("1544MiB |"), std::string::npos) << "the process is listed with its memory\n" << said.out;
  EXPECT_NE(said.out.find("\n1544 MiB\n1\n"), std::string::npos) << said.out;
}

TEST_F(NvidiaSmi, TheWholeCardIsSeenOutsideShares) {
  const Said said = beside_two_shares(
      "LD_LIBRARY_PATH=$SIM HEADGATE_SIM_DIR=$($H sim path) $S --query-compute-apps=used_memory "
      "--format=csv,noheader | sort; LD_LIBRARY_PATH=$SIM HEADGATE_SIM_DIR=$($H sim path) $S "
      "--query-gpu=memory.total,memory.used --format=csv,noheader");
  EXPECT_EQ(said.out, "1544 MiB\n2568 MiB\n144384 MiB, 4112 MiB\n");
}

TEST_F(NvidiaSmi, TheLongViewAgreesWithTheShortOne) {
  const Said said = beside_two_shares("$H run --sim --name b -- $S -q");
  const std::size_t memory = said.out.find("FB Memory Usage"), used = said.out.find("Used GPU Memory");
  ASSERT_NE(memory, std::string::npos) << said.out;
  ASSERT_NE(used, std::string::npos) << said.out;
  std::istringstream lines(said.out.substr(memory));
  std::string line;
  std::vector<long> mib;
  std::getline(lines, line);
  while (mib.size() < 4 && std::getline(lines, line)) mib.push_back(std::stol(line.substr(line.find(':') + 1)));
  EXPECT_EQ(mib, (std::vector<long>{8192, 0, 2568, 5624})) << "total, reserved, used, free";
  EXPECT_NE(said.out.find("2568 MiB", used), std::string::npos);
  EXPECT_EQ(said.out.find("1544 MiB"), std::string::npos) << "the neighbour";
}

// Correct at the first query, because nvidia-smi has no earlier sample to compare with.
TEST_F(NvidiaSmi, UtilisationIsTheSharesOwn) {
  const Said said = shell(
      "$H run --sim --mem 8GiB --name idle -- ${SIM%/sim}/headgate-load --no-launches --duration=60s --no-idle-list "
      ">/dev/null 2>&1 & a=$!; $H run --sim --mem 8GiB --name busy -- ${SIM%/sim}/headgate-load --duration=60s "
      "--no-idle-list >/dev/null 2>$D/b & b=$!; ask='--query-gpu=utilization.gpu --format=csv,noheader,nounits'; "
      "n=0; until [ \"$($H run --sim --mem 8GiB --name busy -- $S $ask)\" -ge 50 ] || [ $n = 300 ]; do sleep 0.1; "
      "n=$((n+1)); done; echo $n; $H run --sim --mem 8GiB --name idle -- $S $ask; $H run --sim --mem 8GiB --name busy "
      "-- $S pmon -c 1; kill "
      "$a $b; wait; cat $D/b >&2");
  std::istringstream lines(said.out);
  int tries = 999, idle = 999;
  lines >> tries >> idle;
  EXPECT_LT(tries, 300) << said.out << said.err;
  EXPECT_EQ(idle, 0) << "the neighbour's work";
  std::string table((std::istreambuf_iterator<char>(lines)), {});
  std::istringstream row(table.substr(std::min(table.size(), table.rfind("\n    0 "))));
  int card = 0, pid = 0, sm = 0;
  std::string type;
  row >> card >> pid >> type >> sm;
  EXPECT_GE(sm, 50) << "the process's own column of pmon\n" << table;
}

// `-q -d UTILIZATION` shows samples of the last seconds, which the driver keeps for the card alone.
TEST_F(NvidiaSmi, UtilisationSamplesAreTheSharesOwn) {
  const Said said = shell(
      "$H run --sim --mem 8GiB --name idle -- ${SIM%/sim}/headgate-load --no-launches --duration=60s --no-idle-list "
      ">/dev/null 2>&1 & a=$!; $H run --sim --mem 8GiB --name busy -- ${SIM%/sim}/headgate-load --duration=60s "
      "--no-idle-list >/dev/null 2>&1 & b=$!; max() { $H run --sim --mem 8GiB --name $1 -- $S -q -d UTILIZATION | "
      "sed -n '/GPU Utilization Samples/,/Max/s/.*Max *: \\([0-9]*\\) %/\\1/p'; }; n=0; until [ \"$(max busy)\" -ge 50 "
      "] || "
      "[ $n = 300 ]; do sleep 0.1; n=$((n+1)); done; echo $n; max idle; kill $a $b; wait");
  std::istringstream lines(said.out);
  int tries = 999, idle = 999;
  lines >> tries >> idle;
  EXPECT_LT(tries, 300) << said.out << said.err;
  EXPECT_EQ(idle, 0) << "the neighbour's work\n" << said.out;
}

TEST_F(NvidiaSmi, AccountingShowsTheSharesProcessesOnly) {
  if (::getuid() != 0) GTEST_SKIP() << "only root may turn accounting on";
  const std::string plain = "LD_LIBRARY_PATH=$SIM HEADGATE_SIM_DIR=$($H sim path) ";
  const std::string query = "$S --query-accounted-apps=max_memory_usage --format=csv,noheader";
  ASSERT_EQ(shell("$H run --sim -- true; " + plain + "$S -am 1").status, 0);
  const Said said = beside_two_shares(plain + query + " | sort; $H run --sim --name a -- " + query);
  EXPECT_EQ(said.out, "1544 MiB\n2568 MiB\n1544 MiB\n") << "all outside, its own in the share";
}

// Two programs by fork and exec, one of which is killed, then both have ended.
TEST_F(NvidiaSmi, FollowsForkedExecutedAndEndedPrograms) {
  const Said said = shell(
      "L=\"${SIM%/sim}/headgate-load --no-launches --duration=60s --no-idle-list\"; R=\"$H run --sim --mem 8GiB --name "
      "a\"; "
      "ask() { $R -- $S --query-compute-apps=used_memory --format=csv,noheader | sort; "
      "$R -- $S --query-gpu=memory.used --format=csv,noheader; $R -- $S pmon -c 1 | grep -c headgate-load; }; "
      "until_rows() { n=0; until [ $($R -- $S --query-compute-apps=pid --format=csv,noheader | wc -l) = $1 ] || "
      "[ $n = 300 ]; do sleep 0.05; n=$((n+1)); done; }; "
      "$R -- sh -c \"$L --mem=1GiB & echo \\$! >$D/child; exec $L --mem=2GiB\" >/dev/null 2>&1 & a=$!; until_rows 2; "
      "n=0; until [ \"$($R -- $S --query-gpu=memory.used --format=csv,noheader)\" = '4112 MiB' ] || [ $n = 300 ]; do "
      "sleep 0.05; n=$((n+1)); done; ask; kill -9 $(cat $D/child); until_rows 1; ask; kill $a; wait; until_rows 0; "
      "ask");
  EXPECT_EQ(said.out, "1544 MiB\n2568 MiB\n4112 MiB\n2\n2568 MiB\n2568 MiB\n1\n0 MiB\n0\n") << said.err;
}

TEST_F(NvidiaSmi, APowerLimitThatItSetsIsShownAndRecorded) {
  if (::getuid() != 0) GTEST_SKIP() << "only root may set it";
  const Said set = shell("$H run --sim -- $S -pl 400");
  EXPECT_EQ(set.status, 0) << set.out;
  EXPECT_NE(shell("$H run --sim -- $S --query-gpu=power.limit --format=csv,noheader").out.find("400.00 W"),
            std::string::npos);
  EXPECT_NE(shell("$H run --sim -- $S -pl 100").status, 0);
  EXPECT_NE(shell("$H sim truth --json").out.find("nvmlDeviceSetPowerManagementLimit"), std::string::npos);
}

constexpr const char* kPython = "/usr/bin/python3";

std::string every_road(const char* answer, const char* total) {
  std::string all;
  for (const char* road : {"attribute", "dlsym", "cuGetProcAddress", "cuGetProcAddress_v2", "copied"})
    all += std::string(road) + " " + answer + "\n";
  return all + "total " + total + "\n";
}

TEST(Python, EachPathToTheDriverIsHeldToTheLimit) {
  if (!there(kPython)) GTEST_SKIP() << "there is no Python here";
  const Cli cli;
  const std::string program = std::string(" -- ") + kPython + " " ROADS_PY " ";
  const Said over = cli.shell("$H run --sim --mem 2GiB" + program + "2147483648");
  EXPECT_EQ(over.out, every_road("2", "2147483648")) << over.err;
  const Said under = cli.shell("$H run --sim --mem 2GiB" + program + "1073741824");
  EXPECT_EQ(under.out, every_road("0", "2147483648")) << under.err;
}

class Views : public testing::Test {
 protected:
  void SetUp() override {
    if (!there(kPython)) GTEST_SKIP() << "there is no Python here";
  }
  [[nodiscard]] Said limited(const std::string& before, const std::string& what,
                             const std::string& profile = "l40s-x2") const {
    return cli_.shell(before + " $H run --sim=" + profile + " --gpu all -- " + kPython + " " VIEWS_PY " " + what);
  }
  Cli cli_;
};

TEST_F(Views, ANullPointerIsPassedToTheDriverWithoutACrash) {
  for (const std::string profile : {"l40s-x2", "h200-cuda13"}) {
    const Said with = limited("HEADGATE_MEM=2GiB", "nulls", profile);
    const Said without = cli_.shell("LD_LIBRARY_PATH=$SIM HEADGATE_SIM_DIR=$($H sim path --sim=" + profile + ") " +
                                    kPython + " " VIEWS_PY " nulls");
    EXPECT_EQ(without.status, 0) << without.err;
    EXPECT_EQ(with.out, without.out);
    EXPECT_EQ(with.err, "");
    EXPECT_EQ(with.out.find("nvmlDeviceGetProcessesUtilizationInfo None None") != std::string::npos,
              profile == "l40s-x2")
        << with.out;
  }
}

TEST_F(Views, EachVersionOfTheProcessListShowsTheProcess) {
  const Said said = limited("HEADGATE_MEM=2GiB", "lists");
  EXPECT_EQ(said.out, "v1 0 [(True, 464)]\nv2 0 [(True, 464)]\nv3 0 [(True, 464)]\n") << said.err;
}

TEST_F(Views, LimitsApplyToTheCardsOfTheVisibleList) {
  const std::string alone =
      "export LD_PRELOAD=${SIM%/sim}/libheadgate.so LD_LIBRARY_PATH=$SIM HEADGATE_SIM_DIR=$($H sim path --sim=l40s-x2) "
      "CUDA_DEVICE_MEMORY_LIMIT_0=4g CUDA_DEVICE_MEMORY_LIMIT_1=8g; CUDA_VISIBLE_DEVICES=";
  const auto devices = [&](const std::string& visible) {
    return cli_
        .shell("rm -rf $HEADGATE_RUNTIME_DIR/shares; $H run --sim=l40s-x2 -- true; " + alone + visible + " " + kPython +
               " " VIEWS_PY " devices")
        .out;
  };
  EXPECT_EQ(devices("0,1"), "ordinal 0 card 0 cuda 4096 nvml 4096\nordinal 1 card 1 cuda 8192 nvml 8192\n");
  EXPECT_EQ(devices("1,0"), "ordinal 0 card 1 cuda 4096 nvml 4096\nordinal 1 card 0 cuda 8192 nvml 8192\n");
  EXPECT_EQ(devices("1"), "ordinal 0 card 1 cuda 4096 nvml 4096\n");
}

// Frames that went through the GPU's memory are identical, or the run is refused: they are never different.
TEST(Ffmpeg, FramesOverTheGpuAreEqualOrRefused) {
  if (!there("/usr/bin/ffmpeg")) GTEST_SKIP() << "ffmpeg is not installed";
  const Cli cli;
  const std::string source = "ffmpeg -v error -f lavfi -i testsrc=size=320x240:rate=5:duration=1 ";
  const Said plain = cli.shell(source + "-vf format=nv12 -f framemd5 -");
  ASSERT_EQ(plain.status, 0) << plain.err;
  const std::string by_gpu = source +
                             "-init_hw_device cuda=c -filter_hw_device c -vf "
                             "format=nv12,hwupload_cuda,hwdownload,format=nv12 -f framemd5 -";
  const Said held = cli.shell("$H run --sim --mem 2GiB -- " + by_gpu);
  EXPECT_EQ(held.status, 0) << held.err;
  EXPECT_EQ(held.out, plain.out);
  const Said small = cli.shell("$H run --sim --mem 600MiB -- " + source +
                               "-init_hw_device cuda=c -filter_hw_device c -vf "
                               "scale=7680:4320,format=nv12,hwupload_cuda,hwdownload,format=nv12 -f framemd5 -");
  EXPECT_NE(small.status, 0) << small.out;
  EXPECT_NE(small.err.find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos) << small.err;
}

}  // namespace
}  // namespace headgate::e2e
