// Values from outside: environment names of all limiters, broken pages, full directories.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "cli_program.hpp"

namespace headgate::e2e {
namespace {

// A program with the limiter preloaded by hand, on a simulated node, that allocates one GiB.
const std::string kPreloaded =
    " HEADGATE_SIM_DIR=$($H sim path --sim) LD_LIBRARY_PATH=$SIM LD_PRELOAD=${SIM%/sim}/libheadgate.so "
    "${SIM%/sim}/headgate-load --attempt=1GiB --no-launches --duration=1ms --no-idle-list";

struct Bad {
  const char* name;
  const char* value;
  const char* accepted;  // part of the message
};

constexpr const char* kBytes = "accepted: bytes, or a number with k, m, g or t (binary), such as 3g, 1.5G or 1000m";
constexpr const char* kPercent = "accepted: a percentage from 1 to 100, such as 50";
constexpr const char* kFlag = "accepted: true, false, 1 or 0";
constexpr const char* kRatio = "accepted: a number from 1 to 1000, such as 1.5";

constexpr Bad kBad[] = {
    {"HEADGATE_MEM", "8000", "accepted: 8GiB"},
    {"HEADGATE_MEM_0", "0m", "accepted: 8GiB"},
    {"HEADGATE_COMPUTE", "101%", "accepted: 50%"},
    {"HEADGATE_SHARE", "../x", "accepted: 1 to 63 letters"},
    {"HEADGATE_LOG", "loud", "accepted: off, error, warn, info or debug"},
    {"HEADGATE_FAIL_POLICY", "maybe", "accepted: open or closed"},
    {"HEADGATE_DISABLE", "yes please", kFlag},
    {"CUDA_MEM_LIMIT", "0", kBytes},
    {"CUDA_MEM_LIMIT", "abc", kBytes},
    {"CUDA_MEM_LIMIT", "-1", kBytes},
    {"CUDA_MEM_LIMIT", "1e9g", kBytes},
    {"CUDA_MEM_LIMIT", "99999999999999999999", kBytes},
    {"CUDA_MEM_LIMIT_1", "0m", kBytes},
    {"CUDA_CORE_LIMIT", "0", kPercent},
    {"CUDA_CORE_LIMIT", "101", kPercent},
    {"CUDA_CORE_SOFT_LIMIT", "half", kPercent},
    {"CUDA_MEMORY_OVERSUBSCRIBE", "perhaps", "accepted: true, false or a number from 1 to 1000"},
    {"CUDA_MEMORY_RATIO", "0.5", kRatio},
    {"CUDA_MEM_RATIO_0", "x", kRatio},
    {"CUDA_MEM_OVERSOLD", "2", kFlag},
    {"GPU_DEVICES_UUID", "0,1", "accepted: GPU UUIDs separated by commas, at most 16"},
    {"MANAGER_VISIBLE_DEVICES", "all", "accepted: GPU UUIDs separated by commas, at most 16"},
    {"MANAGER_VISIBLE_DEVICE_0", "0", "accepted: a GPU UUID such as GPU-9c2f..."},
    {"LOGGER_LEVEL", "9", "accepted: a number from 0 to 5"},
    {"DISABLE_VGPU_CONTROL", "on", kFlag},
    {"CUDA_DEVICE_MEMORY_LIMIT", "0", kBytes},
    {"CUDA_DEVICE_MEMORY_LIMIT_0", "5x", kBytes},
    {"CUDA_DEVICE_SM_LIMIT", "0", kPercent},
    {"CUDA_TASK_PRIORITY", "2", "accepted: 0 (high) or 1 (low)"},
    {"GPU_CORE_UTILIZATION_POLICY", "fair", "accepted: default, force or disable"},
    {"CUDA_OVERSUBSCRIBE", "2", kFlag},
    {"CUDA_DISABLE_CONTROL", "maybe", kFlag},
    {"LIBCUDA_LOG_LEVEL", "7", "accepted: a number from 0 to 4"},
    {"ACTIVE_OOM_KILLER", "7", kFlag},
    {"GPU_MEMORY_LIMIT", "0", kBytes},
    {"TENSOR_FUSION_CUDA_MEM_LIMIT", "{\"0\":", "accepted: a JSON map from UUID or index to bytes"},
    {"TENSOR_FUSION_CUDA_UP_LIMIT", "{\"0\": 0}", "accepted: a JSON map from UUID or index to percent"},
};

TEST(CliValues, RunRefusesEveryUnreadableVariableBeforeTheStart) {
  const Cli cli;
  for (const Bad& bad : kBad) {
    const Said said =
        cli.shell("env '" + std::string(bad.name) + "=" + bad.value + "' $H run --sim --mem 1GiB -- echo started");
    EXPECT_EQ(said.status, 2) << bad.name << " " << said.err;
    EXPECT_EQ(said.out, "") << bad.name;
    EXPECT_NE(said.err.find(std::string(bad.name) + "='" + bad.value + "'"), std::string::npos) << said.err;
    EXPECT_NE(said.err.find(bad.accepted), std::string::npos) << bad.name << " " << said.err;
  }
}

TEST(CliValues, APreloadedProgramWithABadVariableGetsNoGpu) {
  const Cli cli;
  for (const Bad& bad : kBad) {
    const Said said = cli.shell("env '" + std::string(bad.name) + "=" + bad.value + "'" + kPreloaded);
    EXPECT_NE(said.status, 0) << bad.name << " " << said.out;
    EXPECT_NE(said.err.find(std::string(bad.name) + "='" + bad.value + "'"), std::string::npos)
        << bad.name << " " << said.err;
    EXPECT_NE(said.err.find(bad.accepted), std::string::npos) << bad.name << " " << said.err;
    EXPECT_NE(said.err.find("CUDA_ERROR_NOT_PERMITTED"), std::string::npos) << bad.name << " " << said.err;
  }
}

// A limit above the card's memory would have no effect. Both ways of starting refuse it and name its source.
TEST(CliValues, ALimitAboveTheCardIsRefusedFromAnySource) {
  const Cli cli;
  for (const Bad& bad :
       {Bad{"HEADGATE_MEM", "900GiB", "accepted: 8GiB"}, Bad{"HEADGATE_MEM_0", "900GiB", "accepted: 8GiB"},
        Bad{"CUDA_MEM_LIMIT", "900g", kBytes}, Bad{"CUDA_MEM_LIMIT_0", "900g", kBytes},
        Bad{"CUDA_DEVICE_MEMORY_LIMIT", "966367641600", kBytes}, Bad{"CUDA_DEVICE_MEMORY_LIMIT_0", "900g", kBytes},
        Bad{"GPU_MEMORY_LIMIT", "900g", kBytes},
        Bad{"TENSOR_FUSION_CUDA_MEM_LIMIT", "{\"0\":966367641600}", "accepted: a JSON map"}}) {
    const std::string entry = std::string(bad.name) + "='" + bad.value + "'";
    const Said run = cli.shell("env '" + std::string(bad.name) + "=" + bad.value + "' $H run --sim -- echo started");
    EXPECT_EQ(run.status, 4) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_NE(run.err.find(entry + " is more than GPU 0 (H200) has: 141.0 GiB"), std::string::npos) << run.err;
    const Said preloaded = cli.shell("env '" + std::string(bad.name) + "=" + bad.value + "'" + kPreloaded);
    EXPECT_NE(preloaded.status, 0) << preloaded.out;
    EXPECT_NE(preloaded.err.find(entry + " is more than the card has; " + bad.accepted), std::string::npos)
        << preloaded.err;
    EXPECT_NE(preloaded.err.find("; at most 144384m\n"), std::string::npos) << preloaded.err;
    EXPECT_NE(preloaded.err.find("CUDA_ERROR_NOT_PERMITTED"), std::string::npos) << preloaded.err;
    EXPECT_EQ(cli.shell("ls $HEADGATE_RUNTIME_DIR/shares 2>/dev/null").out, "") << "a share was made all the same";
  }
}

TEST(CliValues, NamesOfOtherLimitersLimitAPreloadedProgram) {
  const Cli cli;
  int number = 0;
  for (const std::string name : {"HEADGATE_MEM=1023MiB", "CUDA_MEM_LIMIT=1023m", "CUDA_MEM_LIMIT_0=1023m",
                                 "CUDA_DEVICE_MEMORY_LIMIT=1023m", "CUDA_DEVICE_MEMORY_LIMIT_0=1072693248",
                                 "GPU_MEMORY_LIMIT=1023m", "TENSOR_FUSION_CUDA_MEM_LIMIT={\"0\":1072693248}"}) {
    const Said said = cli.shell("env '" + name + "' HEADGATE_SHARE=s" + std::to_string(number++) + kPreloaded);
    EXPECT_EQ(said.status, 0) << name << said.err;
    EXPECT_NE(said.out.find("\"refused_bytes\":1073741824,\"result\":\"cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)\""),
              std::string::npos)
        << name << said.out;
    EXPECT_NE(said.out.find("\"total_bytes\":1072693248"), std::string::npos) << name << said.out;
  }
}

TEST(CliValues, OptionOverridesEnvironmentAndOursForeign) {
  const Cli cli;
  const auto limit = [&](const std::string& line) {
    return cli.shell(line + " 2>&1 | grep -o '[0-9.]* [GM]iB, [^,]*'").out;
  };
  EXPECT_EQ(limit("CUDA_MEM_LIMIT=2g CUDA_CORE_LIMIT=10 $H run -v --sim --mem 1GiB --compute 25% -- true"),
            "1.0 GiB, 25 %\n");
  EXPECT_EQ(
      limit("CUDA_MEM_LIMIT=2g CUDA_CORE_LIMIT=10 HEADGATE_MEM=3GiB HEADGATE_COMPUTE=30% $H run -v --sim -- true"),
      "3.0 GiB, 30 %\n");
  EXPECT_EQ(limit("CUDA_MEM_LIMIT=2g CUDA_DEVICE_MEMORY_LIMIT=4g CUDA_DEVICE_SM_LIMIT=40 $H run -v --sim -- true"),
            "2.0 GiB, 40 %\n");
  const Said disabled = cli.shell(
      "CUDA_DISABLE_CONTROL=true HEADGATE_DISABLE=1 $H run --sim --mem 1023MiB -- ${SIM%/sim}/headgate-load "
      "--attempt=1GiB --no-launches --duration=1ms --no-idle-list");
  EXPECT_NE(disabled.out.find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos)
      << "run asked for a limit, so the switch does not lift it: " << disabled.out << disabled.err;
}

TEST(CliValues, BrokenPagesAreNamedAndNotUsed) {
  const Cli cli;
  const struct {
    const char* damage;
    int status;
    const char* words;
  } table[] = {
      {"truncate -s 100 policy", 125, "the share's page \"policy\" is cut short: 100 bytes of"},
      {"truncate -s 0 usage", 125, "the share's page \"usage\" is cut short: 0 bytes of"},
      {"truncate -s 5000 usage", 125, "the share's page \"usage\" is cut short: 5000 bytes of"},
      {"seq 9999 | head -c 2240 > policy", 125, "is not a page of headgate"},
      {"printf '\\143' | dd of=policy bs=1 seek=8 conv=notrunc 2>/dev/null", 6, "version 99"},
      {"chmod 666 usage", 5, "has mode 0666"},
      {"rm policy && ln -s /etc/passwd policy", 5, "policy"},
  };
  for (const auto& row : table) {
    const std::string make =
        "rm -rf $HEADGATE_RUNTIME_DIR/shares/a; $H run --sim --mem 1GiB --name a -- true; (cd "
        "$HEADGATE_RUNTIME_DIR/shares/a && " +
        std::string(row.damage) + "); ";
    const Said run = cli.shell(make + "$H run --sim --mem 1GiB --name a -- echo started");
    EXPECT_EQ(run.status, row.status) << row.damage << run.err;
    EXPECT_EQ(run.out, "") << row.damage;
    EXPECT_NE(run.err.find(row.words), std::string::npos) << row.damage << run.err;
    EXPECT_NE(run.err.find("the share 'a'"), std::string::npos) << row.damage << run.err;
    const Said why = cli.shell("$H why a --sim");
    EXPECT_EQ(why.status, 1) << row.damage;
    EXPECT_NE(why.err.find(row.words), std::string::npos) << row.damage << why.err;
    EXPECT_NE(cli.shell("$H doctor --sim").out.find("fail  the share 'a'"), std::string::npos) << row.damage;
    const Said preloaded = cli.shell("HEADGATE_SHARE=a HEADGATE_MEM=1GiB" + kPreloaded);
    EXPECT_NE(preloaded.status, 0) << row.damage;
    EXPECT_NE(preloaded.err.find(row.words), std::string::npos) << row.damage << preloaded.err;
  }
}

// A full or read-only directory, or half a share: every way of starting prints an error that names the directory. It
// never ends in a signal, and the program never runs without limits.
TEST(CliValues, AnUnusableDirectoryIsNamedAndNothingRuns) {
  const Cli cli;
  const auto refused = [&](const std::string& prepare, int status, const std::string& words) {
    const auto inside = [&](const std::string& line) {
      return cli.shell(
          "mkdir -p -m 700 $D/node $D/place; export HEADGATE_SIM_DIR=$D/node HEADGATE_RUNTIME_DIR=$D/place "
          "HEADGATE_SHARE=a HEADGATE_MEM=1GiB; $H sim path --sim >/dev/null; " +
          prepare + line);
    };
    const Said run = inside("$H run --sim -- echo started'");
    EXPECT_EQ(run.status, status) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_NE(run.err.find(words), std::string::npos) << run.err;
    EXPECT_NE(run.err.find("/place\""), std::string::npos) << run.err;
    const Said preloaded = inside(
        "LD_LIBRARY_PATH=$SIM LD_PRELOAD=${SIM%/sim}/libheadgate.so ${SIM%/sim}/headgate-load "
        "--attempt=1GiB --no-launches --duration=1ms --no-idle-list'");
    EXPECT_EQ(preloaded.status, 5) << preloaded.err;
    EXPECT_NE(preloaded.err.find(words), std::string::npos) << preloaded.err;
    EXPECT_NE(preloaded.err.find("/place\""), std::string::npos) << preloaded.err;
    EXPECT_NE(preloaded.err.find("CUDA_ERROR_NOT_PERMITTED"), std::string::npos) << preloaded.err;
  };
  refused(
      "mkdir -p -m 700 $D/place/shares $D/place/shares/a; echo x > $D/place/shares/a/policy; chmod 600 "
      "$D/place/shares/a/policy; sh -c '",
      125,
      "the share's page \"usage\" is missing: it was removed; end the share's processes, remove its directory (in "
      "\"");
  const Said relative = cli.shell("cd $D; HEADGATE_RUNTIME_DIR=here $H run --sim -- echo started; ls here");
  EXPECT_NE(relative.err.find("the runtime directory 'here' is a relative path"), std::string::npos) << relative.err;
  EXPECT_EQ(relative.out, "");
  const Said elsewhere = cli.shell(
      "export HEADGATE_SIM_DIR=$($H sim path --sim); cd $D; HEADGATE_RUNTIME_DIR=here HEADGATE_MEM=1GiB "
      "LD_LIBRARY_PATH=$SIM LD_PRELOAD=${SIM%/sim}/libheadgate.so ${SIM%/sim}/headgate-load --attempt=1GiB "
      "--no-launches --duration=1ms --no-idle-list; ls here");
  EXPECT_NE(elsewhere.err.find("\"here\" is a relative path, which names other shares in each directory"),
            std::string::npos)
      << elsewhere.err;
  EXPECT_EQ(elsewhere.out, "");
  if (!may_mount()) GTEST_SKIP() << "no mount namespaces here";
  refused("unshare -m sh -c 'mount -t tmpfs -o size=16k,mode=700 none $D/place && ", 4,
          "cannot be made: no space left on its file system; free some, or set HEADGATE_RUNTIME_DIR");
  refused("unshare -m sh -c 'mount -t tmpfs -o ro,mode=700 none $D/place && ", 125,
          "lies on a read-only file system; set HEADGATE_RUNTIME_DIR");
}

TEST(CliValues, ForeignControlCharactersNeverReachTheTerminal) {
  const Cli cli;
  const std::string make = "B=$(printf '\\033[2J\\302\\233x\\377'); ";
  for (const char* line :
       {"$H run --sim --mem \"$B\" -- true",
        "$H run --sim --name \"$B\" -- true",
        "$H run --sim --gpu \"$B\" -- true",
        "$H run \"--sim=$B\" -- true",
        "$H \"$B\"",
        "$H run \"--$B\" -- true",
        "$H run --sim -- \"$B\"",
        "$H why \"$B\"",
        "$H free --sim --fit \"$B\"",
        "$H status --interval \"$B\"",
        "$H completion \"$B\"",
        "$H config check --config \"$B\"",
        "env \"CUDA_MEM_LIMIT=$B\" $H run --sim -- true",
        "env \"HEADGATE_SHARE=$B\" $H run --sim -- true",
        "env \"HEADGATE_RUNTIME_DIR=/dev/null/$B\" $H run --sim -- true",
        "env \"HEADGATE_SIM_DIR=/dev/null/$B\" $H run --sim -- true",
        "env \"HEADGATE_SIM_DIR=$D/$B\" $H run --sim -- true; HEADGATE_SIM_DIR=\"$D/$B\" $H sim truth",
        "HEADGATE_SIM_DIR=\"$D/$B\" $H sim truth --json",
        "$H run \"--sim=h200\" -- true; mv $HEADGATE_RUNTIME_DIR/sim/h200 \"$HEADGATE_RUNTIME_DIR/sim/$B\"; $H sim "
        "list; $H sim list --json",
        "$H doctor --symbols \"$B\"",
        "mkdir -p \"$HEADGATE_RUNTIME_DIR/shares/$B\"; $H status --sim; $H doctor --sim --json; $H free --sim "
        "--json"}) {
    const Said said = cli.shell(make + line);
    for (const std::string* text : {&said.out, &said.err}) {
      EXPECT_EQ(text->find('\033'), std::string::npos) << line << *text;
      EXPECT_EQ(text->find("\xc2\x9b"), std::string::npos) << line << *text;
      EXPECT_EQ(text->find('\xff'), std::string::npos) << line << *text;
    }
  }
}

TEST(CliValues, AProgramsNameCannotDriveTheTerminal) {
  const Cli cli;
  const Said said = cli.shell(
      "P=\"$D/$(printf 'x\\033[2J\\302\\233\\377')\"; cp ${SIM%/sim}/headgate-load \"$P\"; $H run --sim --name c -- "
      "\"$P\" --mem=1MiB --no-launches --duration=60s --no-idle-list >/dev/null 2>&1 & run=$!; "
      "n=0; until $H ps --sim | grep -q '^c '|| [ $n = 300 ]; do sleep 0.05; n=$((n+1)); done; for w in ps status why; "
      "do $H $w --sim; $H $w --sim --json; done; $H sim truth --sim; $H sim truth --sim --json; kill -TERM $run; wait "
      "$run");
  EXPECT_NE(said.out.find("\nc      0  "), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("  x?[2J"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("\"headgate.sim_truth/v1\""), std::string::npos) << said.out;
  for (const char* raw : {"\033", "\xc2\x9b", "\xff"})
    EXPECT_EQ((said.out + said.err).find(raw), std::string::npos) << said.out;
}

#ifdef SANITIZED_TENANT
// GCC's AddressSanitizer ends a program if another library was loaded before it. With its runtime first, both work.
TEST(CliValues, AnAsanProgramIsHeldWithItsRuntimeFirst) {
  const Cli cli;
  const std::string run = "PROBE_REFUSALS=7 ASAN_OPTIONS=detect_leaks=0 $H run --sim --mem 1GiB -- " SANITIZED_TENANT;
  const Said plain = cli.shell(run);
  EXPECT_NE(plain.status, 0);
  EXPECT_NE(plain.err.find("ASan runtime does not come first"), std::string::npos) << plain.err;
  EXPECT_EQ(plain.out, "");
  if (::access("/proc/self/environ", R_OK) != 0) GTEST_SKIP() << "the sanitizer reads its options from /proc";
  const Said first = cli.shell("LD_PRELOAD=" SANITIZER_RUNTIME " " + run);
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_NE(first.out.find("as expected: 7\n"), std::string::npos) << first.out << first.err;
}
#endif

TEST(CliValues, AnInvalidProfileIsRefusedByFileAndLine) {
  const Cli cli;
  const Said said = cli.shell("printf 'gpus = \"many\"\\n' > $D/p.toml; $H run --sim=$D/p.toml -- echo started");
  EXPECT_EQ(said.status, 2) << said.err;
  EXPECT_EQ(said.out, "");
  EXPECT_NE(said.err.find("p.toml"), std::string::npos) << said.err;
  EXPECT_EQ(cli.shell("head -c 4096 /dev/zero > $D/z.toml; $H run --sim=$D/z.toml -- true").status, 2);
  EXPECT_NE(cli.shell("$H run --sim=$D/none.toml -- true").status, 0);
}

}  // namespace
}  // namespace headgate::e2e
