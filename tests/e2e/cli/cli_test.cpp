// Views, commands and errors of the built command.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "cli_program.hpp"

namespace headgate::e2e {
namespace {

using nlohmann::json;

TEST(Cli, EveryBadValueIsNamedWithWhatIsAccepted) {
  const Cli cli;
  const std::string memory = "\n          accepted: 8GiB, 8G, 1.5GiB, 800MiB, 8GB (decimal) or 50% of the card\n";
  const std::string compute = "\n          accepted: 50%, 0.5 or 500m: more than 0, at most one GPU\n";
  const struct {
    const char* line;
    int status;
    std::string err;
  } table[] = {
      {"$H run --sim --mem 0m -- true", 2, "headgate: --mem '0m' is zero" + memory},
      {"$H run --sim --mem abc -- true", 2, "headgate: --mem 'abc' is not understood" + memory},
      {"$H run --sim --mem -1 -- true", 2, "headgate: --mem '-1' is negative" + memory},
      {"$H run --sim --mem 1e9GiB -- true", 2, "headgate: --mem '1e9GiB' is not understood" + memory},
      {"$H run --sim --compute 0 -- true", 2, "headgate: --compute '0' is zero" + compute},
      {"$H run --sim --compute 101% -- true", 2, "headgate: --compute '101%' is more than a whole GPU" + compute},
      {"$H run --sim --mem 200GiB -- true", 4,
       "headgate: --mem 200GiB is more than GPU 0 (H200) has: 141.0 GiB\n          ask for at most 141.0 GiB, or "
       "choose another GPU with --gpu\n"},
      {"HEADGATE_SHARE=../x $H run --sim -- true", 2,
       "headgate: the environment variable HEADGATE_SHARE='../x' cannot name a share\n          accepted: 1 to 63 "
       "letters, digits, '-', '_' or '.', not beginning with '.' or '-'\n"},
      {"$H run --sim --name ../x -- true", 2,
       "headgate: --name '../x' cannot name a share\n          accepted: 1 to 63 letters, digits, '-', '_' or '.', not "
       "beginning with '.' or '-'\n"},
      {"$H run --sim=nonsense -- true", 2,
       "headgate: --sim=nonsense names no profile\n          accepted: h200, h200-cuda13, h200-r615, l40s-x2, "
       "tiny, or the path of a .toml file\n"},
      {"$H run --sim -- no-such-command", 127,
       "headgate: cannot run 'no-such-command': No such file or directory\n          write the path of an existing "
       "program, or the name of one in PATH\n"},
      {"$H run --sim -- /etc/passwd", 126,
       "headgate: cannot run '/etc/passwd': Permission denied\n          an executable file is needed\n"},
      {"$H run --sim --compute 50% --burst 40% -- true", 2,
       "headgate: --burst 40 % is not above the share's limit of 50 %\n          a burst is what the share may use "
       "while no "
       "other works: ask for more than --compute, or leave it out\n"},
      {"$H run --sim --burst 80% -- true", 2,
       "headgate: --burst 80 % is not above the share's limit of 100 %\n          a burst is what the share may use "
       "while no "
       "other works: ask for more than --compute, or leave it out\n"},
      {"$H run --sim --weight 2 -- true", 6,
       "headgate: --weight needs the daemon (headgated), which decides between shares; it is not running here\n        "
       "  without it a share has a ceiling, and a burst above it: --compute, --burst\n"},
      {"$H run --sim --on-oom=wait -- true", 6,
       "headgate: --on-oom needs the daemon (headgated), which makes other shares return memory to those that wait; it "
       "is not "
       "running here\n          without it an allocation for which there is no room is refused at once; leave the "
       "option "
       "out\n"},
      {"$H run --sim", 2,
       "headgate: run: no command was given\n          write it after '--', such as: headgate run --mem 8GiB -- python "
       "train.py\n"},
      {"$H why missing", 2, "headgate: there is no share 'missing'\n          there are no shares\n"},
      {"CUDA_MEM_LIMIT=0 $H run --sim -- true", 2,
       "headgate: the environment variable CUDA_MEM_LIMIT='0' is zero; accepted: bytes, or a number with k, m, g or t "
       "(binary), such as 3g, 1.5G or 1000m\n          correct it, or unset it\n"},
  };
  for (const auto& row : table) {
    const Said said = cli.shell(row.line);
    EXPECT_EQ(said.status, row.status) << row.line;
    EXPECT_EQ(said.err, row.err) << row.line;
    EXPECT_EQ(said.out, "") << row.line;
  }
}

TEST(Cli, AnUnknownGpuIsNamedWithTheKnownOnes) {
  const Cli cli;
  const Said said = cli.shell("$H run --sim=l40s-x2 --gpu 0,7 -- true");
  EXPECT_EQ(said.status, 2);
  EXPECT_TRUE(
      said.err.starts_with("headgate: --gpu '0,7': '7' is not a GPU of this node\n          accepted: an index (0)"))
      << said.err;
  EXPECT_NE(said.err.find("GPUs here: 0 (GPU-"), std::string::npos);
  EXPECT_EQ(cli.shell("$H run --sim --gpu MIG-1-2 -- true").status, 6);
}

TEST(Cli, TheSimulatorIsOfferedWithoutAGpu) {
  const Cli cli;
  const Said run = cli.shell("$H run -- true");
  if (run.status == 0) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(run.status, 3);
  EXPECT_NE(run.err.find("no NVIDIA driver"), std::string::npos);
  EXPECT_NE(run.err.find("'headgate run --sim ...'"), std::string::npos);
  EXPECT_EQ(cli.shell("$H").status, 3);
}

TEST(Cli, EveryJsonHasItsSchemaAndSimulation) {
  const Cli cli;
  for (const std::string word : {"status", "ps", "free", "why", "sim list", "sim truth", "sim path"}) {
    const Said said = cli.shell("$H " + word + " --sim --json");
    ASSERT_EQ(said.status, 0) << word << said.err;
    const json object = json::parse(said.out);
    EXPECT_TRUE(object.at("schema").get<std::string>().starts_with("headgate.")) << word;
    EXPECT_EQ(object.at("simulated"), true) << word;
  }
  for (const std::string word : {"version", "config show", "config check", "doctor"}) {
    EXPECT_NO_THROW((void)json::parse(cli.shell("$H " + word + " --json").out).at("schema")) << word;
  }
}

TEST(Cli, TheVersionNamesTheCommitItWasBuiltFrom) {
  const Cli cli;
  const json facts = json::parse(cli.shell("$H version --json").out);
  std::string line = "headgate " + facts.at("version").get<std::string>();
  if (facts.at("commit").is_string()) {
    EXPECT_GE(facts.at("commit").get<std::string>().size(), 12u);
    line += " (commit " + facts.at("commit").get<std::string>() + (facts.at("modified") == true ? ", modified)" : ")");
  }
  EXPECT_EQ(cli.shell("$H version").out, line + "\n");
  EXPECT_EQ(cli.shell("$H --version").out, line + "\n");
}

TEST(Cli, ErrorsUnderJsonAreObjectsWithCodeMessageAndHint) {
  const Cli cli;
  const Said said = cli.shell("$H free --sim --fit 0,5 --json");
  EXPECT_EQ(said.status, 2);
  EXPECT_EQ(said.out, "");
  const json error = json::parse(said.err).at("error");
  EXPECT_EQ(error.at("code"), "usage");
  EXPECT_EQ(error.at("message"), "--fit '0' is zero");
}

TEST(Cli, FreeReportsByItsStatusWhetherItFits) {
  const Cli cli;
  EXPECT_EQ(cli.shell("$H free --sim --fit 10GiB,30%").status, 0);
  EXPECT_EQ(cli.shell("$H free --sim --fit 300GiB").status, 4);
}

TEST(Cli, TheConfigurationIsCheckedByFileAndLine) {
  const Cli cli;
  EXPECT_EQ(cli.shell("printf '[defaults]\\nmem = \"4GiB\"\\n' > $D/config.toml; $H config show --origin --config "
                      "$D/config.toml | grep defaults.mem | tr -s ' '")
                .out,
            "defaults.mem 4GiB " + cli.directory() + "/config.toml:2\n");
  EXPECT_EQ(cli.shell("$H run -v --sim --config $D/config.toml -- true 2>&1 | grep -o '4.0 GiB'").out, "4.0 GiB\n");
  const Said bad =
      cli.shell("printf '[defaults]\\nmem = \"0\"\\n' > $D/config.toml; $H config check --config $D/config.toml");
  EXPECT_EQ(bad.status, 2);
  EXPECT_EQ(bad.err, "headgate: " + cli.directory() +
                         "/config.toml:2: defaults.mem = '0' is zero\n          accepted: 8GiB, 8G, 1.5GiB, 800MiB, "
                         "8GB (decimal) or 50% of the card\n");
  EXPECT_EQ(cli.shell("$H run --sim --config $D/config.toml -- true").status, 2)
      << "a bad default must not become no limit";
  EXPECT_EQ(cli.shell("$H config check --config $D/none.toml").status, 2);
}

TEST(Cli, CompletionScriptsParseInTheirShells) {
  const Cli cli;
  EXPECT_EQ(cli.shell("$H completion bash > $D/c && bash -n $D/c").status, 0);
  // Bash splits --option=value into three words.
  const struct {
    const char* words;
    const char* completed;
  } table[] = {
      {"si", "sim"},
      {"sim tr", "truth"},
      {"quota r", "rm"},
      {"share create --over", "--overcommit --oversubscribe"},
      {"--sim st", "status"},
      {"run --me", "--mem"},
      {"run --name x --al", "--allow-unenforced"},
      {"run --mem = 8GiB --com", "--compute"},
      {"run --name x --gpu ''", ""},
      {"run -- compge", "compgen"},
      {"run compge", "compgen"},
      {"ps -o j", "json jsonl"},
      {"ps --output = t", "table"},
      {"run --sim = ti", "tiny"},
      {"completion f", "fish"},
      {"nonsense --j", ""},
  };
  for (const auto& row : table) {
    const Said said = cli.shell(
        "PATH=${H%/*}:$PATH; $H completion bash > $D/c; cd $D; bash -c '. $D/c; COMP_WORDS=(headgate '\"" +
        std::string(row.words) + "\"'); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _headgate; echo ${COMPREPLY[*]}'");
    EXPECT_EQ(said.out, std::string(row.completed) + "\n") << row.words << said.err;
  }
  EXPECT_EQ(cli.shell("$H completion tcsh").status, 2);
}

struct Completed {
  const char* line;
  const char* words;  // completions offered for the last word of the line, one per line
};
constexpr Completed kCompleted[] = {
    {"headgate si", "sim\n"},
    {"headgate sim tr", "truth\n"},
    {"headgate --json sta", "status\n"},
    {"headgate sim list tr", ""},
    {"headgate run --allow", "--allow-unenforced\n"},
    {"headgate config show --ori", "--origin\n"},
    {"headgate run --name x --al", "--allow-unenforced\n"},
    {"headgate run --name run --al", "--allow-unenforced\n"},
    {"headgate ps -o j", "json\njsonl\n"},
    {"headgate run --gpu ", ""},
    {"headgate completion f", "fish\n"},
    {"headgate nonsense --j", ""},
};

// If fish is installed (dev/setup ci): loads the whole script, then completes as fish's line editor does.
TEST(Cli, FishCompletionOffersMatchingValues) {
  const Cli cli;
  if (cli.shell("command -v fish").status != 0) return;
  EXPECT_EQ(cli.shell("$H completion fish > $D/c && fish -n $D/c").status, 0);
  const auto offered = [&](const std::string& line) {
    return cli.shell("PATH=${H%/*}:$PATH; cd $D; HOME=$D fish -c 'source c; complete -C \"" + line + "\"' | cut -f1")
        .out;
  };
  for (const auto& row : kCompleted) EXPECT_EQ(offered(row.line), row.words) << row.line;
  EXPECT_EQ(offered("headgate run --sim=ti"), "--sim=tiny\n");
  for (const std::string line : {"headgate run -- sleep --he", "headgate run sleep --he"})
    EXPECT_EQ(offered(line), cli.shell("cd $D; HOME=$D fish -c 'complete -C \"sleep --he\"' | cut -f1").out) << line;
  EXPECT_NE(offered("headgate run --mem 1GiB env").find("env\n"), std::string::npos) << "a command";
}

TEST(Cli, ZshCompletionOffersMatchingValues) {
  const Cli cli;
  if (cli.shell("command -v zsh").status != 0) return;
  EXPECT_EQ(cli.shell("$H completion zsh > $D/c && zsh -n $D/c").status, 0);
  // Runs its function with stubs for the builtins that only work inside the line editor.
  const std::string stubs = R"(
compdef() { :; }
compset() { [[ $2 == "*=" ]] && word=${word#*=}; }
offer() { for one in "$@"; do [[ $one == $word* ]] && print -r -- $one; done; :; }
compadd() { shift; offer "$@"; }
_describe() { offer "${(@)described%%:*}"; }
_files() { :; }
_command_names() { print commands; }
_normal() { print -r -- "$words[1] at $CURRENT"; }
. $D/c
words=("${(@)argv}"); CURRENT=$#words; word=$words[-1]; _headgate
)";
  std::ofstream(cli.directory() + "/ask") << stubs;
  const auto offered = [&](std::string line) {
    if (line.ends_with(' ')) line += "''";
    return cli.shell("PATH=${H%/*}:$PATH; zsh -f $D/ask " + line).out;
  };
  for (const auto& row : kCompleted) EXPECT_EQ(offered(row.line), row.words) << row.line;
  EXPECT_EQ(offered("headgate run --sim=ti"), "tiny\n");
  EXPECT_EQ(offered("headgate run --output=t"), "table\n");
  EXPECT_EQ(offered("headgate run --mem 1GiB -- ls --al"), "ls at 2\n");
  EXPECT_EQ(offered("headgate run --mem 1GiB ls -l --al"), "ls at 3\n");
  EXPECT_EQ(offered("headgate run --mem 1GiB en"), "commands\n");
}

TEST(Cli, DoctorNamesDriverFunctionsThatTheTableLacks) {
  const Cli cli;
  const Said said = cli.shell("$H doctor --symbols $SIM/libnvidia-ml.so.1 --json");
  const json library = json::parse(said.out).at("libraries").at(0);
  EXPECT_EQ(library.at("api"), "NVML");
  EXPECT_TRUE(library.at("unknown").empty()) << said.out;
  EXPECT_EQ(said.status, 0);
  EXPECT_EQ(cli.shell("$H doctor --symbols /bin/sh").status, 2);
  EXPECT_EQ(cli.shell("$H doctor --symbols /etc/passwd").status, 1);
}

TEST(Cli, WorksWithoutHomeTerminalLocaleProcOrShm) {
  const Cli cli;
  EXPECT_EQ(cli.shell("env -i HEADGATE_RUNTIME_DIR=$HEADGATE_RUNTIME_DIR $H run --sim --mem 1GiB -- true").status, 0);
  if (!may_mount()) GTEST_SKIP() << "no mount namespaces here";
  EXPECT_EQ(cli.shell("unshare -m sh -c 'mount -t tmpfs none /proc && mount -t tmpfs none /dev/shm; $H run --sim --mem "
                      "1GiB -- true && $H status --sim'")
                .status,
            0)
      << cli.shell("unshare -m sh -c 'mount -t tmpfs none /proc; $H run --sim --mem 1GiB -- true'").err;
}

TEST(Cli, AFullOrReadOnlyRuntimeDirectoryIsOneMessage) {
  const Cli cli;
  const Said file = cli.shell("HEADGATE_RUNTIME_DIR=/dev/null/x $H run --sim -- true");
  EXPECT_EQ(file.status, 125);
  EXPECT_EQ(file.err,
            "headgate: cannot make the directory /dev/null/x: Not a directory\n          set HEADGATE_RUNTIME_DIR or "
            "XDG_RUNTIME_DIR to a directory that you may write\n");
  if (!may_mount()) GTEST_SKIP() << "no mount namespaces here";
  // The node is in another directory, so only the share runs out of space.
  const std::string node = "mkdir -p $D/node $D/small; export HEADGATE_SIM_DIR=$D/node HEADGATE_RUNTIME_DIR=$D/small; ";
  const Said full =
      cli.shell(node + "unshare -m sh -c 'mount -t tmpfs -o size=16k,mode=700 none $D/small && $H run --sim -- true'");
  EXPECT_EQ(full.status, 4) << full.err;
  EXPECT_NE(full.err.find("set HEADGATE_RUNTIME_DIR"), std::string::npos) << full.err;
  const Said locked =
      cli.shell(node + "unshare -m sh -c 'mount -t tmpfs -o ro,mode=700 none $D/small && $H run --sim -- true'");
  EXPECT_EQ(locked.status, 125) << locked.err;
  EXPECT_NE(locked.err.find("set HEADGATE_RUNTIME_DIR"), std::string::npos) << locked.err;
}

}  // namespace
}  // namespace headgate::e2e
