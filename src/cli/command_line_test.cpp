#include "cli/command_line.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "cli/run/run_request.hpp"
#include "cli/support/completion.hpp"
#include "cli/top/top.hpp"

namespace headgate::cli {
namespace {

Result<Invocation> words(std::vector<const char*> argv) {
  argv.insert(argv.begin(), "headgate");
  return parse(static_cast<int>(argv.size()), argv.data());
}

TEST(CommandLine, BareMeansStatus) {
  EXPECT_EQ(words({})->command, "status");
  EXPECT_EQ(words({"--json"})->voice.format, Format::json);
  EXPECT_EQ(words({"-o", "json", "--sim"})->simulate, "");
}

TEST(CommandLine, WhatAShareHasForItsLifeReachesTheDaemonWhichSaysSoAndIsOfferedNowhere) {
  for (const auto& [option, key] : {std::pair{"--gpu", "gpu"}, {"--gang", "gang"}, {"--fail-policy", "fail_policy"}}) {
    const auto parsed = words({"share", "set", "a", option, "x"});
    ASSERT_TRUE(parsed) << option << ": " << parsed.error().message;
    EXPECT_EQ(parsed->order.at(key), "x");
    EXPECT_EQ(words({"share", "set", "--help"})->help.value_or(option).find(option), std::string::npos);
  }
}

TEST(CommandLine, RebalanceTakesAPartForEachShare) {
  const auto parsed = words({"share", "rebalance", "a=80%", "b=20%", "--yes"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->command, "share rebalance");
  EXPECT_EQ(parsed->parts, (std::vector<std::string>{"a=80%", "b=20%"}));
  EXPECT_TRUE(parsed->yes);
  EXPECT_FALSE(words({"share", "rebalance"}));
  EXPECT_FALSE(words({"gpu", "policy", "0", "off"})->yes);
  EXPECT_TRUE(words({"gpu", "policy", "0", "off", "-y"})->yes);
}

TEST(CommandLine, WhatAFlagGaveAShareTheSameFlagTakesBack) {
  for (const auto& [option, key] :
       {std::pair<std::string, const char*>{"--everyone", "everyone"}, {"--overcommit", "overcommit"}}) {
    const auto said = [&, option = option, key = key](const std::string& value) {
      return words({"share", "set", "a", (option + value).c_str()})->order.at(key);
    };
    for (const char* yes : {"", "=yes", "=true"}) EXPECT_EQ(said(yes), "true");
    for (const char* no : {"=no", "=false"}) EXPECT_EQ(said(no), "false");
    const auto unclear = words({"share", "set", "a", (option + "=maybe").c_str()});
    ASSERT_FALSE(unclear);
    EXPECT_NE(unclear.error().message.find("'maybe' is neither yes nor no"), std::string::npos)
        << unclear.error().message;
  }
}

TEST(CommandLine, FormerNamesAreUnderstoodAndTold) {
  const auto share = words({"share", "create", "a", "--over-sell=yes"});
  ASSERT_TRUE(share) << share.error().message;
  EXPECT_EQ(share->order.at("overcommit"), "true");
  EXPECT_EQ(share->warnings, std::vector<std::string>{"--over-sell is now called --overcommit; the next release does "
                                                      "not know the old name"});
  const auto run = words({"run", "--allow-unheld", "--", "true"});
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_TRUE(run->run.allow_unenforced);
  ASSERT_EQ(run->warnings.size(), 1u);
  EXPECT_TRUE(run->warnings[0].starts_with("--allow-unheld is now called --allow-unenforced"));
  EXPECT_TRUE(words({"run", "--allow-unenforced", "--", "true"})->warnings.empty());
  for (const auto& help :
       {words({"run", "--help"})->help.value(), words({"share", "create", "--help"})->help.value()}) {
    EXPECT_EQ(help.find("--over-sell"), std::string::npos);
    EXPECT_EQ(help.find("--allow-unheld"), std::string::npos);
  }
}

TEST(CommandLine, AWordHasTheFormsThatMakeSenseOfItAndNamesThemWhereAnotherIsAsked) {
  for (const char* word : {"status", "ps", "free", "events"}) {
    for (const auto& [name, form] : {std::pair{"table", Format::table},
                                     {"wide", Format::wide},
                                     {"json", Format::json},
                                     {"jsonl", Format::jsonl},
                                     {"csv", Format::csv}}) {
      const auto parsed = words({word, "-o", name});
      ASSERT_TRUE(parsed) << word << name;
      EXPECT_EQ(parsed->voice.format, form);
    }
  }
  EXPECT_EQ(words({"share", "ls", "--output=csv"})->voice.format, Format::csv);
  EXPECT_EQ(words({"gpu", "ls", "-o", "wide", "--sim"})->voice.format, Format::wide);
  EXPECT_EQ(words({"doctor", "-o", "csv"}).error(),
            (Error{ErrorCode::usage, "doctor: output format 'csv' is not supported", "accepted: table or json"}));
  EXPECT_EQ(words({"quota", "ls", "-o", "wide"}).error(),
            (Error{ErrorCode::usage, "quota ls: output format 'wide' is not supported",
                   "accepted: table, json, jsonl or csv"}));
  EXPECT_EQ(words({"metrics", "-o", "jsonl"})->voice.format, Format::jsonl);
  for (const char* json : {"--json", "--output=json"}) {
    EXPECT_EQ(words({"metrics", json}).error(),
              (Error{ErrorCode::usage, "metrics: output format 'json' is not supported", "accepted: table or jsonl"}));
    EXPECT_EQ(words({"completion", "bash", json}).error().hint, "accepted: table");
  }
  EXPECT_EQ(words({"-o", "xml"}).error().hint, "accepted: table, wide, json, jsonl or csv");
}

TEST(CommandLine, TopTakesAViewAndNamesThoseThereAreForAnother) {
  EXPECT_EQ(words({"top", "--by", "gpu"})->by, "gpu");
  EXPECT_EQ(words({"top", "--by", "nothing"}).error(),
            (Error{ErrorCode::usage, "--by 'nothing' is not understood", "accepted: share, gpu, user or process"}));
  const auto tcsh = words({"completion", "tcsh"});
  ASSERT_TRUE(tcsh) << "the script says which shells there are: " << tcsh.error().message;
  EXPECT_EQ(completion_script(tcsh->shell, command_tree()).error().hint, "accepted: bash, zsh or fish");
}

TEST(CommandLine, WatchTakesATimeOrTheUsualOne) {
  EXPECT_FALSE(words({"status"})->watch_ms);
  EXPECT_EQ(words({"--watch"})->watch_ms, 2000u);
  EXPECT_EQ(words({"--watch", "ps"})->command, "ps") << "no word is taken for a time";
  EXPECT_EQ(words({"ps", "--watch=500ms", "--sim"})->watch_ms, 500u);
  EXPECT_EQ(words({"share", "ls", "--watch", "5m"})->watch_ms, 300'000u);
  EXPECT_EQ(words({"free", "--watch=1"}).error(), (Error{ErrorCode::usage, "--watch '1' is not understood",
                                                         "accepted: 10ms to 60m, such as 500ms, 2s or 5m"}));
  EXPECT_FALSE(words({"doctor", "--watch"}));
}

TEST(CommandLine, RunLeavesTheProgramsOwnOptionsAlone) {
  const auto run = words({"run", "--mem", "8GiB", "--compute=25%", "--sim", "--", "python", "--mem", "1", "--", "-x"});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->command, "run");
  EXPECT_EQ(run->run.memory, "8GiB");
  EXPECT_EQ(run->run.compute, "25%");
  EXPECT_EQ(run->simulate, "");
  EXPECT_EQ(run->run.command, (std::vector<std::string>{"python", "--mem", "1", "--", "-x"}));
  EXPECT_EQ(words({"run", "--on-oom=wait=5m", "--", "x"})->run.on_oom, "wait=5m");
  EXPECT_EQ(words({"run", "--on-oom", "fail", "x"})->run.on_oom, "fail");
  const auto bare = words({"run", "-m", "8G", "train", "--sim=tiny", "--json"});
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->run.command.front(), "train");
  EXPECT_FALSE(bare->simulate) << "--sim=tiny belongs to the program";
}

TEST(CommandLine, SimTakesAProfileOnlyAfterAnEqualsSign) {
  EXPECT_EQ(words({"run", "--sim=l40s-x2", "--", "x"})->simulate, "l40s-x2");
  EXPECT_EQ(words({"sim", "truth", "--sim=tiny"})->simulate, "tiny");
  EXPECT_EQ(words({"run", "--sim", "l40s-x2"})->run.command.front(), "l40s-x2");
}

TEST(CommandLine, WhatIsNotUnderstoodIsNamed) {
  const struct {
    std::vector<const char*> argv;
    std::string_view named;
  } table[] = {
      {{"stauts"}, "stauts"},
      {{"status", "--jsno"}, "--jsno"},
      {{"run", "--mme", "8G", "--", "x"}, "--mme"},
      {{"-o", "xml"}, "xml"},
      {{"status", "--interval", "5"}, "5"},
      {{"sim"}, "sim"},
      {{"top", "--by", "pod"}, "pod"},
      {{"top", "--interval", "0s"}, "0s"},
      {{"events", "--since", "yesterday"}, "yesterday"},
  };
  for (const auto& row : table) {
    const auto parsed = words(row.argv);
    ASSERT_FALSE(parsed) << row.named;
    EXPECT_EQ(parsed.error().code, ErrorCode::usage);
    EXPECT_NE(parsed.error().message.find(row.named), std::string::npos) << parsed.error().message;
    EXPECT_FALSE(parsed.error().hint.empty()) << row.named;
  }
}

TEST(CommandLine, AWordThatThereIsNotIsNamedAndTheOneThatIsNear) {
  const auto error = [](const std::vector<const char*>& given) {
    const auto parsed = words(given);
    return parsed ? Error{} : parsed.error();
  };
  EXPECT_EQ(error({"share", "lss"}).message, "share has no command 'lss'");
  EXPECT_TRUE(error({"share", "lss"}).hint.starts_with("did you mean ls? accepted: create, "))
      << error({"share", "lss"}).hint;
  EXPECT_EQ(error({"share", "creat", "--mem", "8GiB", "--", "x"}).message, "share has no command 'creat'");
  EXPECT_TRUE(error({"share", "creat", "--mem", "8GiB"}).hint.starts_with("did you mean create? "));
  EXPECT_TRUE(error({"share", "nothing-like-it"}).hint.starts_with("accepted: "));
  EXPECT_EQ(error({"share"}).message, "share needs a command");
  EXPECT_TRUE(error({"statsu"}).hint.starts_with("did you mean status? ")) << error({"statsu"}).hint;
  EXPECT_TRUE(error({"ps", "--usr=a"}).hint.starts_with("did you mean --user? ")) << error({"ps", "--usr=a"}).hint;
  EXPECT_TRUE(error({std::string(100'000, 'x').c_str()}).hint.starts_with("accepted: "));
}

TEST(CommandLine, AVariableThatIsNotSetIsAnErrorAndNotAllSharesAnyGpuOrNoImage) {
  const auto error = [](const std::vector<const char*>& given) {
    const auto parsed = words(given);
    return parsed ? Error{ErrorCode::failed, "taken as if nothing had been said", ""} : parsed.error();
  };
  const struct {
    std::vector<const char*> argv;
    const char* message;
    const char* hint;
  } table[] = {
      {{"why", ""},
       "why: SHARE|PID '' is empty",
       "SHARE|PID: a share's name or a process's number; all shares without one"},
      {{"share", "show", ""}, "share show: NAME '' is empty", "NAME: the share's name"},
      {{"run", "--gpu", "", "--", "x"},
       "run: --gpu '' is empty",
       "--gpu GPUS: which GPUs: 0, 0,2-3, GPU-9c2f, 0000:1b:00.0, all, auto"},
      {{"run", "--mem=", "--", "x"}, "run: --mem has no value", "--mem SIZE: memory limit on each GPU: 8GiB, 8GB, 50%"},
      {{"run", "--sim=", "--", "x"},
       "run: --sim has no value",
       "--sim=PROFILE: h200, h200-cuda13, h200-r615, l40s-x2, tiny or a .toml file"},
      {{"free", "--fit", ""},
       "free: --fit '' is empty",
       "--fit SIZE,PART: memory and compute that must fit: 10GiB,30%"},
      {{"limiter", "install", "--root", "", "/opt/headgate"},
       "limiter install: --root '' is empty",
       "--root ROOT: an image's root: DIR lies in it, and its /etc/ld.so.preload is changed"},
      {{"--config", ""},
       "--config '' is empty",
       "--config FILE: configuration file instead of /etc/headgate/config.toml"},
      {{"share", "create", "a", "--gang", ""},
       "share create: --gang '' is empty",
       "--gang NAME: run at the same time as your other shares of that gang"},
  };
  for (const auto& row : table)
    EXPECT_EQ(error(row.argv), (Error{ErrorCode::usage, row.message, row.hint})) << error(row.argv).message;
  EXPECT_EQ(words({"run", "--", "x", ""})->run.command, (std::vector<std::string>{"x", ""})) << "the program's own";
  EXPECT_TRUE(words({"status", "--watch"})) << "it may be left away";
}

TEST(CommandLine, WhatWasWrittenIsNamedBeforeWhatWasNot) {
  EXPECT_EQ(words({"share", "create", "-x", "--mem", "1GiB"}).error().message, "share create has no option '-x'");
  EXPECT_EQ(words({"share", "create", "--mem", "1GiB"}).error().message, "share create: NAME is required");
  const auto help = words({"share", "create", "--help"});
  EXPECT_NE(help->help->find("Usage: headgate share create [OPTIONS] NAME\n"), std::string::npos) << *help->help;
  EXPECT_NE(help->help->find("\n  NAME REQUIRED "), std::string::npos) << *help->help;
}

TEST(CommandLine, TheLiveViewsLookOnceASecondUnlessTold) {
  EXPECT_EQ(words({"top"})->interval_ms, 1000u);
  EXPECT_EQ(words({"status"})->interval_ms, 100u);
  const auto top = words({"top", "--once", "--readonly", "--by=user", "--interval=250ms", "--sim=tiny", "--ascii"});
  ASSERT_TRUE(top);
  EXPECT_TRUE(top->once && top->readonly && top->voice.ascii);
  EXPECT_EQ(top->by, "user");
  EXPECT_EQ(top->interval_ms, 250u);
  const auto events = words({"events", "-f", "--since", "1h", "--json"});
  ASSERT_TRUE(events);
  EXPECT_TRUE(events->follow);
  EXPECT_EQ(events->since_ns, 3'600'000'000'000u);
}

TEST(CommandLine, EachBadTimeOfSinceHasItsExactSentence) {
  for (const char* text : {"", "5", "h", "0m", "-1h", "1.5h", "1w", "1h ", " 1h", "367d", "99999999999999999999s"}) {
    EXPECT_EQ(since_option(text).error(),
              (Error{ErrorCode::usage, "--since '" + std::string(text) + "' is not understood",
                     "accepted: 30s, 5m, 1h or 2d, up to a year"}));
  }
  EXPECT_EQ(since_option("2d"), 172'800'000'000'000u);
  EXPECT_EQ(since_option("366d"), 31'622'400'000'000'000u);
}

TEST(CommandLine, HelpIsAnAnswerNotAnError) {
  const auto help = words({"run", "--help"});
  ASSERT_TRUE(help);
  ASSERT_TRUE(help->help);
  EXPECT_NE(help->help->find("--mem"), std::string::npos);
  const auto demo = words({"demo", "--help"});
  for (const char* own : {"--seconds=N", "12 to 120", "--once"})
    EXPECT_NE(demo->help->find(own), std::string::npos) << own;
}

TEST(CommandLine, EachBadLimitHasItsExactSentence) {
  const struct {
    const char* text;
    const char* message;
    const char* hint;
  } memory[] = {
      {"0m", "--mem '0m' is zero", "accepted: 8GiB, 8G, 1.5GiB, 800MiB, 8GB (decimal) or 50% of the card"},
      {"abc", "--mem 'abc' is not understood", "accepted: 8GiB, 8G, 1.5GiB, 800MiB, 8GB (decimal) or 50% of the card"},
      {"-1", "--mem '-1' is negative", "accepted: 8GiB, 8G, 1.5GiB, 800MiB, 8GB (decimal) or 50% of the card"},
      {"1e9GiB", "--mem '1e9GiB' is not understood",
       "accepted: 8GiB, 8G, 1.5GiB, 800MiB, 8GB (decimal) or 50% of the card"},
      {"8000", "--mem '8000' has no unit",
       "did you mean 8000MiB? accepted: 8GiB, 8G, 1.5GiB, 800MiB, 8GB (decimal) or 50% of the card"},
      {"99999999999999G", "--mem '99999999999999G' is too large",
       "accepted: 8GiB, 8G, 1.5GiB, 800MiB, 8GB (decimal) or 50% of the card"},
  };
  for (const auto& row : memory) {
    const auto parsed = memory_option("--mem", row.text);
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error(), (Error{ErrorCode::usage, row.message, row.hint}));
  }
  EXPECT_EQ(
      compute_option("--compute", "0").error(),
      (Error{ErrorCode::usage, "--compute '0' is zero", "accepted: 50%, 0.5 or 500m: more than 0, at most one GPU"}));
  EXPECT_EQ(compute_option("--compute", "101%").error(),
            (Error{ErrorCode::usage, "--compute '101%' is more than a whole GPU",
                   "accepted: 50%, 0.5 or 500m: more than 0, at most one GPU"}));
  EXPECT_EQ(compute_option("--compute", "50").error().hint,
            "did you mean 50%? accepted: 50%, 0.5 or 500m: more than 0, at most one GPU");
}

install::Gpus one_card() {
  snapshot::Gpu gpu;
  gpu.uuid = "GPU-9c2f0000-1111";
  gpu.model = "NVIDIA H200";
  gpu.memory_total_bytes = gpu.memory_free_bytes = 141ull << 30;
  return {{gpu}, "570", true};
}

TEST(RunRequest, ComputeInTflopsIsAPartOfTheCardThatItIsFor) {
  const char* const none[] = {nullptr};
  RunOptions run;
  run.compute = "98.9TFLOPS";
  config::Config config = config::defaults().config;
  EXPECT_EQ(
      make_grant(*read_run_request(run, config), one_card(), {0}, none, std::nullopt)->devices[0].compute_ceiling_ppm,
      100'000u);
  config.settings.push_back({.key = "cards.H200", .value = "197.8", .origin = "config.toml:2"});
  EXPECT_EQ(
      make_grant(*read_run_request(run, config), one_card(), {0}, none, std::nullopt)->devices[0].compute_ceiling_ppm,
      500'000u);
  run.compute = "2PFLOPS";
  const auto more = make_grant(*read_run_request(run, config), one_card(), {0}, none, std::nullopt);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().hint, "accepted: up to 197TFLOPS (H200, FP16)");
  run.compute = "40xFLOPS";
  EXPECT_FALSE(read_run_request(run, config));
  install::Gpus other = one_card();
  other.list[0].model = "NVIDIA Unheard Of";
  run.compute = "40TFLOPS";
  EXPECT_FALSE(make_grant(*read_run_request(run, config), other, {0}, none, std::nullopt));
}

TEST(RunRequest, MoreMemoryThanTheCardIsRefusedNamingBoth) {
  RunRequest request;
  request.memory = grant::Memory{.bytes = 200ull << 30};
  request.memory_text = "--mem 200GiB";
  const char* const none[] = {nullptr};
  const auto grant = make_grant(request, one_card(), {0}, none, std::nullopt);
  ASSERT_FALSE(grant);
  EXPECT_EQ(grant.error(), (Error{ErrorCode::no_capacity, "--mem 200GiB is more than GPU 0 (H200) has: 141.0 GiB",
                                  "ask for at most 141.0 GiB, or choose another GPU with --gpu"}));
}

TEST(RunRequest, AnOptionWinsOverTheEnvironmentAndThatOverTheConfiguration) {
  const char* const environment[] = {"CUDA_MEM_LIMIT_0=1g", "CUDA_CORE_LIMIT=30", nullptr};
  RunRequest request;
  request.memory = grant::Memory{.bytes = 5};
  request.compute_ppm = 7;
  auto grant = make_grant(request, one_card(), {0}, environment, std::nullopt);
  EXPECT_EQ(grant->devices[0].memory_limit_bytes, 5u);
  EXPECT_EQ(grant->devices[0].compute_ceiling_ppm, 7u);
  request.memory_is_default = request.compute_is_default = true;
  grant = make_grant(request, one_card(), {0}, environment, std::nullopt);
  EXPECT_EQ(grant->devices[0].memory_limit_bytes, 1ull << 30);
  EXPECT_EQ(grant->devices[0].compute_ceiling_ppm, 300'000u);
}

TEST(RunRequest, ABurstComesFromTheOptionThenTheEnvironmentThenTheShareWithTheSameCeiling) {
  const char* const said[] = {"CUDA_CORE_LIMIT=30", "CUDA_CORE_SOFT_LIMIT=80", nullptr};
  const char* const none[] = {nullptr};
  RunRequest request;
  auto grant = make_grant(request, one_card(), {0}, said, std::nullopt);
  EXPECT_EQ(grant->devices[0].compute_burst_ppm, 800'000u);
  EXPECT_EQ(make_grant(request, one_card(), {0}, none, *grant)->devices[0].compute_burst_ppm, 800'000u);
  request.compute_ppm = 500'000;
  EXPECT_EQ(make_grant(request, one_card(), {0}, none, *grant)->devices[0].compute_burst_ppm, 0u);
  const auto run = words({"run", "--compute", "50%", "--burst=90%", "--", "python"});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->run.burst, "90%");
  request.burst_ppm = 900'000;
  EXPECT_EQ(make_grant(request, one_card(), {0}, said, std::nullopt)->devices[0].compute_burst_ppm, 900'000u);
  request.compute_ppm = 900'000;
  EXPECT_FALSE(make_grant(request, one_card(), {0}, none, std::nullopt));
}

TEST(RunRequest, HostMemoryComesFromTheOptionThenTheEnvironmentThenTheShareAndElseIsNone) {
  const char* const said[] = {"HEADGATE_HOST_MEM=2GiB", nullptr};
  const char* const none[] = {nullptr};
  RunRequest request;
  EXPECT_EQ(make_grant(request, one_card(), {0}, none, std::nullopt)->devices[0].host_limit_bytes, 0u);
  auto grant = make_grant(request, one_card(), {0}, said, std::nullopt);
  EXPECT_EQ(grant->devices[0].host_limit_bytes, 2ull << 30);
  EXPECT_EQ(make_grant(request, one_card(), {0}, none, *grant)->devices[0].host_limit_bytes, 2ull << 30);
  const auto run = words({"run", "--mem", "8GiB", "--host-mem=1GiB", "--", "python"});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->run.host_memory, "1GiB");
  request.host_memory = grant::Memory{.bytes = 1ull << 30};
  EXPECT_EQ(make_grant(request, one_card(), {0}, said, std::nullopt)->devices[0].host_limit_bytes, 1ull << 30);
}

TEST(RunRequest, AnUnreadableEnvironmentIsAnErrorNotNoLimit) {
  const char* const environment[] = {"CUDA_MEM_LIMIT=0", nullptr};
  const auto grant = make_grant({}, one_card(), {0}, environment, std::nullopt);
  ASSERT_FALSE(grant);
  EXPECT_EQ(grant.error().message,
            "the environment variable CUDA_MEM_LIMIT='0' is zero; accepted: bytes, or a number with k, m, g or t "
            "(binary), such as 3g, 1.5G or 1000m");
}

TEST(RunRequest, AnUnknownGpuIsNamedWithThoseThatAreThere) {
  const auto chosen = choose_gpus("--gpu", "0,3", one_card());
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().code, ErrorCode::usage);
  EXPECT_EQ(chosen.error().message, "--gpu '0,3': '3' is not a GPU of this node");
  EXPECT_NE(chosen.error().hint.find("GPUs here: 0 (GPU-9c2f0000)"), std::string::npos) << chosen.error().hint;
  EXPECT_EQ(choose_gpus("--gpu", "MIG-1", one_card()).error().code, ErrorCode::unsupported);
}

void collect(const CommandTree& tree, std::vector<std::string>& all) {
  all.insert(all.end(), tree.options.begin(), tree.options.end());
  for (const auto& word : tree.commands) {
    all.push_back(word.name);
    collect(word, all);
  }
}

TEST(Manual, NamesEveryWordAndEveryOption) {
  std::ifstream in(HEADGATE_MANUAL);
  std::string page((std::istreambuf_iterator<char>(in)), {});
  ASSERT_FALSE(page.empty());
  std::erase(page, '\\');  // "\-\-mem" is --mem
  std::vector<std::string> all;
  collect(command_tree(), all);
  EXPECT_GT(all.size(), 40u);
  for (const auto& text : all) EXPECT_NE(page.find(text), std::string::npos) << text;
}

TEST(Completion, KnowsEveryWordInEveryShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const auto script = completion_script(shell, command_tree());
    ASSERT_TRUE(script);
    for (const char* word : {"run", "status", "ps", "free", "why", "doctor", "sim", "truth", "config", "completion",
                             "version", "demo", "bench", "top", "events", "power", "reset"}) {
      EXPECT_NE(script->find(word), std::string::npos) << shell << " " << word;
    }
  }
  EXPECT_FALSE(completion_script("tcsh", command_tree()));
}

}  // namespace
}  // namespace headgate::cli
