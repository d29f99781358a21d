#include "cli/parse.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/units.hpp"
#include "cli/commands.hpp"
#include "cli/run/run_request.hpp"
#include "cli/share/order.hpp"
#include "cli/test_parse.hpp"
#include "cli/top/top.hpp"
#include "cli/view/view_command.hpp"

namespace headgate::cli {
namespace {

Result<Parsed> words(std::vector<const char*> argv) {
  argv.insert(argv.begin(), "headgate");
  return parse(all_commands({}), static_cast<int>(argv.size()), argv.data());
}

Result<Read<RunOptions>> run_words(const std::vector<const char*>& given) {
  return read_words<RunOptions>("run", add_run_options, given);
}

Result<Read<ShareOptions>> set_words(const std::vector<const char*>& given) {
  return read_words<ShareOptions>("share set", add_set_options, given);
}

Result<Read<ShareOptions>> create_words(const std::vector<const char*>& given) {
  return read_words<ShareOptions>("share create", add_create_options, given);
}

TEST(CommandLine, ABareCommandIsStatus) {
  EXPECT_EQ(words({})->call.command, "status");
  EXPECT_EQ(words({"--json"})->call.voice.format, Format::json);
  EXPECT_EQ(words({"-o", "json", "--sim"})->call.simulate, "");
  EXPECT_EQ(words({"--sim=tiny", "ps"})->call.simulate, "tiny") << "its options stand before other commands too";
  EXPECT_EQ(words({"--version"})->call.command, "version");
}

TEST(CommandLine, FixedShareOptionsReachTheDaemonAndAreNotInHelp) {
  using snapshot::ShareRequest;
  for (const auto& [option, field] : {std::pair{"--gpu", &ShareRequest::gpu},
                                      {"--gang", &ShareRequest::gang},
                                      {"--fail-policy", &ShareRequest::fail_policy}}) {
    const auto parsed = set_words({"share", "set", "a", option, "x"});
    ASSERT_TRUE(parsed) << option << ": " << parsed.error().message;
    EXPECT_EQ(parsed->own.request.*field, "x");
    EXPECT_EQ(words({"share", "set", "--help"})->help.value_or(option).find(option), std::string::npos);
  }
}

// Each attribute that has an option is said by it, and its value reaches the body under the attribute's key.
TEST(CommandLine, EachShareAttributeIsAnOption) {
  snapshot::ShareRequest any;
  std::size_t options = 0;
  snapshot::each_attribute(any, [&](const snapshot::ShareAttribute& attribute, const auto& field) {
    if (*attribute.option == '\0') return;
    ++options;
    const std::string name = std::string(attribute.option).substr(std::string_view(attribute.option).find("--"));
    const std::string value = *attribute.type == '\0' ? "" : "=x,y";
    const auto parsed = create_words({"share", "create", "a", (name + value).c_str()});
    ASSERT_TRUE(parsed) << name << ": " << parsed.error().message;
    const auto body = nlohmann::json::parse(body_of(parsed->own.request));
    ASSERT_EQ(body.size(), 1u) << body;
    const bool is_list = requires { field->front().size(); };
    const nlohmann::json wanted = value.empty() ? nlohmann::json(true)
                                  : is_list     ? nlohmann::json{"x", "y"}
                                                : nlohmann::json("x,y");
    EXPECT_EQ(body[std::string(attribute.key)], wanted) << name;
    EXPECT_NE(words({"share", "create", "--help"})->help->find(attribute.help), std::string::npos) << name;
  });
  EXPECT_GE(options, 20u);
}

TEST(ShownAttributes, HaveTheOptionsNamesAndTheSharesValues) {
  snapshot::Share share;
  share.admit = "ask";
  share.freeze_after_ns = 600'000'000'000;
  share.overcommit = true;
  const auto shown = shown_attributes(share, short_duration_text);
  const auto value_of = [&](const char* name) {
    const auto found = std::ranges::find(shown, name, &ShownAttribute::name);
    return found == shown.end() ? "none" : found->value;
  };
  EXPECT_EQ(value_of("admit"), "ask");
  EXPECT_EQ(value_of("freeze-after"), "10m");
  EXPECT_EQ(value_of("idle-notice"), "");
  EXPECT_EQ(value_of("overcommit"), "yes");
  EXPECT_EQ(value_of("gang"), "");
  EXPECT_EQ(value_of("mem"), "none") << "not in this table";
}

TEST(CommandLine, RebalanceTakesAPartForEachShare) {
  const auto parsed = words({"share", "rebalance", "a=80%", "b=20%", "--yes"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->call.command, "share rebalance");
  EXPECT_FALSE(words({"share", "rebalance"}));
  EXPECT_FALSE(set_words({"share", "set", "a"})->own.request.void_promises);
  EXPECT_TRUE(set_words({"share", "set", "a", "-y"})->own.request.void_promises);
}

TEST(CommandLine, SetForSeveralSharesNamesRebalance) {
  for (const std::vector<const char*>& given :
       {std::vector<const char*>{"share", "set", "alice", "--compute", "80%", "bob", "--compute", "20%"},
        {"share", "set", "alice", "bob", "--compute", "20%"},
        {"share", "set", "alice=80%", "bob=20%"}}) {
    const auto parsed = words(given);
    ASSERT_FALSE(parsed);
    EXPECT_NE(parsed.error().hint.find("headgate share rebalance alice=80% bob=20%"), std::string::npos)
        << parsed.error().message << '\n'
        << parsed.error().hint;
  }
  EXPECT_EQ(words({"share", "set", "a", "--mem", "1GiB", "--mem", "2GiB"}).error().message,
            "share set: --mem is written more than once");
  EXPECT_EQ(words({"share", "show", "a", "b"}).error().hint, "see 'headgate share show --help'");
}

TEST(CommandLine, AShareFlagCanBeTurnedOff) {
  using snapshot::ShareRequest;
  for (const auto& [option, field] :
       {std::pair<std::string, ShareRequest::Flag ShareRequest::*>{"--everyone", &ShareRequest::everyone},
        {"--overcommit", &ShareRequest::overcommit}}) {
    const auto said = [&, option = option, field = field](const std::string& value) {
      return set_words({"share", "set", "a", (option + value).c_str()})->own.request.*field;
    };
    for (const char* yes : {"", "=yes", "=true"}) EXPECT_EQ(said(yes), true);
    for (const char* no : {"=no", "=false"}) EXPECT_EQ(said(no), false);
    const auto unclear = words({"share", "set", "a", (option + "=maybe").c_str()});
    ASSERT_FALSE(unclear);
    EXPECT_NE(unclear.error().message.find("'maybe' is neither yes nor no"), std::string::npos)
        << unclear.error().message;
  }
}

TEST(CommandLine, FormerNamesAreAcceptedWithAWarning) {
  const auto share = create_words({"share", "create", "a", "--over-sell=yes"});
  ASSERT_TRUE(share) << share.error().message;
  EXPECT_EQ(share->own.request.overcommit, true);
  EXPECT_EQ(share->warnings, std::vector<std::string>{"--over-sell is now called --overcommit; the next release does "
                                                      "not know the old name"});
  const auto run = run_words({"run", "--allow-unheld", "--", "true"});
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_TRUE(run->own.allow_unenforced);
  ASSERT_EQ(run->warnings.size(), 1u);
  EXPECT_TRUE(run->warnings[0].starts_with("--allow-unheld is now called --allow-unenforced"));
  EXPECT_TRUE(words({"run", "--allow-unenforced", "--", "true"})->warnings.empty());
  for (const auto& help :
       {words({"run", "--help"})->help.value(), words({"share", "create", "--help"})->help.value()}) {
    EXPECT_EQ(help.find("--over-sell"), std::string::npos);
    EXPECT_EQ(help.find("--allow-unheld"), std::string::npos);
  }
}

TEST(CommandLine, ACommandNamesTheOutputFormatsItSupports) {
  for (const char* word : {"status", "ps", "free", "events"}) {
    for (const auto& [name, form] : {std::pair{"table", Format::table},
                                     {"wide", Format::wide},
                                     {"json", Format::json},
                                     {"jsonl", Format::jsonl},
                                     {"csv", Format::csv}}) {
      const auto parsed = words({word, "-o", name});
      ASSERT_TRUE(parsed) << word << name;
      EXPECT_EQ(parsed->call.voice.format, form);
    }
  }
  EXPECT_EQ(words({"share", "ls", "--output=csv"})->call.voice.format, Format::csv);
  EXPECT_EQ(words({"gpu", "ls", "-o", "wide", "--sim"})->call.voice.format, Format::wide);
  EXPECT_EQ(words({"doctor", "-o", "csv"}).error(),
            (Error{ErrorCode::usage, "doctor: output format 'csv' is not supported", "accepted: table or json"}));
  EXPECT_EQ(words({"quota", "ls", "-o", "wide"}).error(),
            (Error{ErrorCode::usage, "quota ls: output format 'wide' is not supported",
                   "accepted: table, json, jsonl or csv"}));
  EXPECT_EQ(words({"metrics", "-o", "jsonl"})->call.voice.format, Format::jsonl);
  for (const char* json : {"--json", "--output=json"}) {
    EXPECT_EQ(words({"metrics", json}).error(),
              (Error{ErrorCode::usage, "metrics: output format 'json' is not supported", "accepted: table or jsonl"}));
    EXPECT_EQ(words({"completion", "bash", json}).error().hint, "accepted: table");
  }
  EXPECT_EQ(words({"-o", "xml"}).error().hint, "accepted: table, wide, json, jsonl or csv");
  EXPECT_EQ(words({"ps", "-o", "csv", "--columns=pid,share"})->call.voice.columns_of_csv,
            (std::vector<std::string>{"pid", "share"}));
  EXPECT_EQ(words({"ps", "--columns=pid"}).error().message, "ps: --columns needs --output csv");
}

TEST(CommandLine, TopNamesTheAcceptedViewsForAnUnknownOne) {
  EXPECT_EQ(read_words<TopOptions>("top", add_top_options, {"top", "--by", "gpu"})->own.by, "gpu");
  EXPECT_EQ(words({"top", "--by", "nothing"}).error(),
            (Error{ErrorCode::usage, "--by 'nothing' is not understood", "accepted: share, gpu, user or process"}));
  const auto tcsh = words({"completion", "tcsh"});
  ASSERT_TRUE(tcsh) << "the script says which shells there are: " << tcsh.error().message;
  EXPECT_EQ(tcsh->run(tcsh->call).error().hint, "accepted: bash, zsh or fish");
}

TEST(CommandLine, WatchTakesAnIntervalOrTheDefault) {
  EXPECT_FALSE(words({"status"})->call.watch_ms);
  EXPECT_EQ(words({"--watch"})->call.watch_ms, 2000u);
  EXPECT_EQ(words({"--watch", "ps"})->call.command, "ps") << "no word is taken for a time";
  EXPECT_EQ(words({"ps", "--watch=500ms", "--sim"})->call.watch_ms, 500u);
  EXPECT_EQ(words({"share", "ls", "--watch", "5m"})->call.watch_ms, 300'000u);
  EXPECT_EQ(words({"free", "--watch=1"}).error(), (Error{ErrorCode::usage, "--watch '1' is not understood",
                                                         "accepted: 10ms to 60m, such as 500ms, 2s or 5m"}));
  EXPECT_FALSE(words({"doctor", "--watch"}));
}

TEST(CommandLine, RunLeavesTheProgramsOwnOptionsAlone) {
  const auto run =
      run_words({"run", "--mem", "8GiB", "--compute=25%", "--sim", "--", "python", "--mem", "1", "--", "-x"});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->call.command, "run");
  EXPECT_EQ(run->own.mem, "8GiB");
  EXPECT_EQ(run->own.compute, "25%");
  EXPECT_EQ(run->call.simulate, "");
  EXPECT_EQ(run->call.words, (std::vector<std::string>{"python", "--mem", "1", "--", "-x"}));
  EXPECT_EQ(run_words({"run", "--on-oom=wait=5m", "--", "x"})->own.on_oom, "wait=5m");
  EXPECT_EQ(run_words({"run", "--on-oom", "fail", "x"})->own.on_oom, "fail");
  const auto bare = run_words({"run", "-m", "8G", "train", "--sim=tiny", "--json"});
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->call.words.front(), "train");
  EXPECT_FALSE(bare->call.simulate) << "--sim=tiny belongs to the program";
}

TEST(CommandLine, SimTakesAProfileOnlyAfterAnEqualsSign) {
  EXPECT_EQ(run_words({"run", "--sim=l40s-x2", "--", "x"})->call.simulate, "l40s-x2");
  EXPECT_EQ(words({"sim", "truth", "--sim=tiny"})->call.simulate, "tiny");
  EXPECT_EQ(run_words({"run", "--sim", "l40s-x2"})->call.words.front(), "l40s-x2");
}

TEST(CommandLine, AnUnknownArgumentIsNamed) {
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

TEST(CommandLine, AnUnknownCommandIsNamedWithANearOne) {
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

TEST(CommandLine, AnEmptyArgumentIsAnError) {
  const auto error = [](const std::vector<const char*>& given) {
    const auto parsed = words(given);
    return parsed ? Error{ErrorCode::failed, "taken as if nothing had been said", ""} : parsed.error();
  };
  const struct {
    std::vector<const char*> argv;
    const char* message;
    const char* hint;
  } table[] = {
      {{"why", ""}, "why: SHARE|PID '' is empty", "SHARE|PID: a share's name or a PID (default: all shares)"},
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
  EXPECT_EQ(words({"run", "--", "x", ""})->call.words, (std::vector<std::string>{"x", ""})) << "the program's own";
  EXPECT_TRUE(words({"status", "--watch"})) << "it may be left away";
}

TEST(CommandLine, AWrongArgumentIsReportedBeforeAMissingOne) {
  EXPECT_EQ(words({"share", "create", "-x", "--mem", "1GiB"}).error().message, "share create has no option '-x'");
  EXPECT_EQ(words({"share", "create", "--mem", "1GiB"}).error().message, "share create: NAME is required");
  const auto help = words({"share", "create", "--help"});
  EXPECT_NE(help->help->find("Usage: headgate share create [OPTIONS] NAME\n"), std::string::npos) << *help->help;
  EXPECT_NE(help->help->find("\n  NAME REQUIRED "), std::string::npos) << *help->help;
}

TEST(CommandLine, LiveViewsRefreshEachSecondByDefault) {
  const auto top_words = [](const std::vector<const char*>& given) {
    return read_words<TopOptions>("top", add_top_options, given);
  };
  EXPECT_FALSE(top_words({"top"})->call.interval_ms);
  EXPECT_NE(words({"top", "--help"})->help->find("refreshes (1s)"), std::string::npos);
  EXPECT_NE(words({"status", "--help"})->help->find("measured (100ms)"), std::string::npos);
  const auto top = top_words({"top", "--once", "--readonly", "--by=user", "--interval=250ms", "--sim=tiny", "--ascii"});
  ASSERT_TRUE(top);
  EXPECT_TRUE(top->own.once && top->own.readonly && top->call.voice.ascii);
  EXPECT_EQ(top->own.by, "user");
  EXPECT_EQ(top->call.interval_ms, 250u);
  const auto events =
      read_words<EventsOptions>("events", add_events_options, {"events", "-f", "--since", "1h", "--json"});
  ASSERT_TRUE(events);
  EXPECT_TRUE(events->own.follow);
  EXPECT_EQ(events->own.since_ns, 3'600'000'000'000u);
}

TEST(CommandLine, EachBadTimeOfSinceHasItsMessage) {
  for (const char* text : {"", "5", "h", "0m", "-1h", "1.5h", "1w", "1h ", " 1h", "367d", "99999999999999999999s"}) {
    EXPECT_EQ(time_option("--since", text).error(),
              (Error{ErrorCode::usage, "--since '" + std::string(text) + "' is not understood",
                     "accepted: 30s, 5m, 1h or 2d, up to a year"}));
  }
  EXPECT_EQ(time_option("--since", "2d"), 172'800'000'000'000u);
  EXPECT_EQ(time_option("--since", "366d"), 31'622'400'000'000'000u);
}

TEST(CommandLine, HelpIsAnAnswerNotAnError) {
  const auto help = words({"run", "--help"});
  ASSERT_TRUE(help);
  ASSERT_TRUE(help->help);
  EXPECT_NE(help->help->find("--mem"), std::string::npos);
}

TEST(Manual, NamesEveryCommandAndEveryOption) {
  std::ifstream in(HEADGATE_MANUAL);
  std::string page((std::istreambuf_iterator<char>(in)), {});
  ASSERT_FALSE(page.empty());
  std::erase(page, '\\');  // "\-\-mem" is --mem
  std::vector<std::string> all;
  Call call;
  const auto collect = [&all](const Options& options) {
    for (const Option& option : options.all)
      if (option.names.starts_with("-") && !option.hidden && option.renamed_to.empty()) all.push_back(option.names);
  };
  Options common(call);
  add_common_options(common);
  collect(common);
  for (const Command& command : all_commands({})) {
    all.push_back(command.name.substr(command.name.find(' ') + 1));
    Options options(call);
    if (command.add_options) (void)command.add_options(options);
    collect(options);
  }
  EXPECT_GT(all.size(), 100u);
  for (const auto& names : all) {
    std::istringstream each(names);
    for (std::string text; std::getline(each, text, ',');) EXPECT_NE(page.find(text), std::string::npos) << text;
  }
}

// CLI11 2.4 and newer end the command at its start for such a name; 2.3 takes any.
TEST(CommandLine, NamesOfArgumentsHaveNoCharacterThatCli11Refuses) {
  Call call;
  for (const Command& command : all_commands({})) {
    Options options(call);
    if (command.add_options) (void)command.add_options(options);
    for (const Option& option : options.all)
      EXPECT_EQ(option.names.find_first_of("=:{! \t"), std::string::npos) << command.name << ": " << option.names;
  }
}

TEST(Completion, OffersWhatMayComeNext) {
  const Commands table = all_commands({});
  const auto offered = [&table](const std::vector<std::string>& given) {
    std::istringstream lines(completions(table, given));
    std::string all;
    for (std::string line; std::getline(lines, line);)
      all += (all.empty() ? "" : " ") + (line.starts_with(":command") ? line : line.substr(0, line.find('\t')));
    return all;
  };
  EXPECT_EQ(offered({"s"}), "status share sim support-bundle");
  EXPECT_EQ(offered({"quota", ""}), "ls set rm");
  EXPECT_EQ(offered({"--json", "sta"}), "status");
  EXPECT_EQ(offered({"share", "set", "--over"}), "--overcommit --oversubscribe") << "no former and no hidden names";
  EXPECT_EQ(offered({"share", "set", "--ga"}), "");
  EXPECT_EQ(offered({"ps", "-o", "j"}), "json jsonl");
  EXPECT_EQ(offered({"doctor", "--output=j"}), "json");
  EXPECT_EQ(offered({"run", "--sim=ti"}), "tiny :file");
  EXPECT_EQ(offered({"run", "--gpu", ""}), "");
  EXPECT_EQ(offered({"run", "--name", "run", "--al"}), "--allow-unenforced");
  EXPECT_EQ(offered({"run", "--mem", "1GiB", "ls", "-l", "x"}), ":command\t5");
  EXPECT_EQ(offered({"run", "--", "ls"}), ":command\t4");
  EXPECT_EQ(offered({"run", "l"}), ":command\t3");
  EXPECT_EQ(offered({"status", "--", "l"}), "");
  EXPECT_EQ(offered({"nonsense", "--j"}), "");
  EXPECT_EQ(offered({"sim", "list", "tr"}), "");
  EXPECT_EQ(offered({"docker", "run", "--sh"}), "");
  EXPECT_EQ(offered({"completion", "f"}), "fish");
}

}  // namespace
}  // namespace headgate::cli
