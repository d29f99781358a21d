// Alert rules, dashboard and unit: every name in them exists, and the programs that read them accept them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "api/metrics.hpp"

namespace headgate {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

const std::string& rules() {
  static const std::string text = text_of(DEPLOY_DIR "/prometheus/headgate.rules.yml");
  return text;
}

std::vector<std::string> all_of(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at) found.push_back((*at)[1]);
  return found;
}

// Returns the metrics of the page and the series that the recording rules derive.
std::set<std::string> known_series() {
  std::set<std::string> known;
  for (const auto& metric : api::metrics()) {
    known.emplace(metric.name);
    if (metric.kind != api::Kind::histogram) continue;
    for (const char* part : {"_bucket", "_sum", "_count"}) known.insert(std::string(metric.name) + part);
  }
  for (const auto& name : all_of(rules(), R"(record: (\S+))")) known.insert(name);
  return known;
}

std::vector<std::string> names_in(const std::string& expression) {
  return all_of(expression, R"((headgate[_:][a-z0-9_:]+))");
}

// Calls visit(panel) for each panel of the dashboard that shows data.
template <typename Visit>
void each_panel(const Json& board, Visit&& visit) {
  for (const Json& panel : board.at("panels")) {
    if (panel.at("type") != "row") visit(panel);
  }
}

const Json& board() {
  static const Json json = Json::parse(text_of(DEPLOY_DIR "/grafana/headgate.json"));
  return json;
}

// Settings on which the guarantees over restarts and reboots depend. systemd would accept the unit without them.
TEST(UnitPromises, TheUnitKeepsPagesAndStartsBeforeContainers) {
  const std::string unit = "\n" + text_of(DEPLOY_DIR "/systemd/headgated.service");
  for (const char* line : {"Type=notify", "WatchdogSec=", "RuntimeDirectory=headgate cdi\n",
                           "RuntimeDirectoryPreserve=yes", "StateDirectory=headgate", "Restart=on-failure",
                           "NoNewPrivileges=yes", "ProtectSystem=strict", "ReadWritePaths=-/run/zeusd"})
    EXPECT_NE(unit.find(std::string("\n") + line), std::string::npos) << line;
  const auto before = all_of(unit, R"(\nBefore=([^\n]+))");
  ASSERT_EQ(before.size(), 1u);
  for (const char* engine :
       {"docker.service", "podman.service", "containerd.service", "kubelet.service", "slurmd.service"})
    EXPECT_NE(before[0].find(engine), std::string::npos) << engine;
}

// A tenant can fill the file system that holds its page.
TEST(UnitPromises, PagesAreInABoundedFileSystem) {
  EXPECT_NE(text_of(DEPLOY_DIR "/systemd/headgated.service").find("\nAfter=run-headgate.mount\n"), std::string::npos);
  EXPECT_NE(text_of(DEPLOY_DIR "/systemd/headgated.service").find("\nWants=run-headgate.mount\n"), std::string::npos);
  const std::string unit = text_of(DEPLOY_DIR "/systemd/run-headgate.mount");
  for (const char* line :
       {"\nWhere=/run/headgate\n", "\nType=tmpfs\n", "\nConditionPathExists=!/run/headgate/shares\n"})
    EXPECT_NE(unit.find(line), std::string::npos) << line;
  const auto options = all_of(unit, R"(\nOptions=([^\n]+))");
  ASSERT_EQ(options.size(), 1u);
  for (const char* option : {"mode=0755", "size=512M", "nr_inodes="})
    EXPECT_NE(options[0].find(option), std::string::npos) << option;
}

class Folder {
 public:
  Folder() : path_(fs::path(testing::TempDir()) / ("headgate-deploy-" + std::to_string(::getpid()))) {
    fs::create_directory(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  [[nodiscard]] std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

struct Said {
  int status = -1;
  std::string text;
};

Said run(const std::string& line) {
  Said said;
  FILE* pipe = ::popen((line + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return said;
  for (int c; (c = std::fgetc(pipe)) != EOF;) said.text += static_cast<char>(c);
  const int status = ::pclose(pipe);
  said.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return said;
}

TEST(Rules, AskOnlyForSeriesThatExist) {
  const auto known = known_series();
  const auto names = names_in(rules());
  EXPECT_GT(names.size(), 20u);
  for (const auto& name : names) EXPECT_TRUE(known.contains(name)) << name;
}

TEST(Rules, EachAlertIsDocumentedAndTested) {
  const auto alerts = all_of(rules(), R"(- alert: (\S+))");
  const std::string page = text_of(DOCS_DIR "/watch.md"), tests = text_of(RULES_TEST);
  EXPECT_GE(alerts.size(), 7u);
  for (const auto& alert : alerts) {
    EXPECT_TRUE(page.contains("| `" + alert + "` |")) << "docs/watch.md does not say what to do about " << alert;
    EXPECT_TRUE(tests.contains("alertname: " + alert + "\n")) << "no test makes it fire: " << alert;
  }
  for (const auto& row : all_of(page, R"(\| `(Headgate\w+)` \|)"))
    EXPECT_NE(std::ranges::find(alerts, row), alerts.end())
        << "docs/watch.md tells of an alert that is not there: " << row;
}

TEST(Board, AsksOnlyForExistingSeriesOfTheChosenSource) {
  const auto known = known_series();
  each_panel(board(), [&](const Json& panel) {
    EXPECT_FALSE(panel.at("targets").empty()) << panel.at("title");
    for (const Json& target : panel.at("targets")) {
      const auto names = names_in(target.at("expr"));
      EXPECT_FALSE(names.empty()) << target;
      for (const auto& name : names) EXPECT_TRUE(known.contains(name)) << panel.at("title") << ": " << name;
      EXPECT_EQ(target.at("datasource").at("uid"), "${datasource}") << panel.at("title");
    }
  });
  for (const Json& variable : board().at("templating").at("list")) {
    for (const auto& name : names_in(variable.dump())) EXPECT_TRUE(known.contains(name)) << variable.at("name");
  }
  EXPECT_FALSE(board().contains("uid")) << "a second import would overwrite the first";
}

TEST(Board, AnEmptyPanelNamesTheMissingCondition) {
  each_panel(board(), [](const Json& panel) {
    EXPECT_FALSE(panel.value("description", "").empty()) << panel.at("title");
    EXPECT_FALSE(panel.at("fieldConfig").at("defaults").value("noValue", "").empty()) << panel.at("title");
  });
}

TEST(Board, PanelsNeitherOverlapNorLeaveThePage) {
  std::set<int> ids;
  std::set<std::pair<int, int>> cells;
  for (const Json& panel : board().at("panels")) {
    EXPECT_TRUE(ids.insert(panel.at("id").get<int>()).second) << panel.at("title");
    const Json& at = panel.at("gridPos");
    const int x = at.at("x"), y = at.at("y"), w = at.at("w"), h = at.at("h");
    EXPECT_LE(x + w, 24) << panel.at("title");
    for (int i = 0; i < w * h; ++i) {
      if (!cells.emplace(x + i % w, y + i / w).second) {
        ADD_FAILURE() << panel.at("title");
        break;
      }
    }
  }
}

TEST(Package, PurgeRemovesWhatTheUnitMadeTheDaemonWrite) {
  const std::string unit = text_of(DEPLOY_DIR "/systemd/headgated.service"),
                    purge = text_of(DEPLOY_DIR "/debian/postrm");
  for (const auto& [directive, above] :
       {std::pair{"StateDirectory", "/var/lib/"}, std::pair{"LogsDirectory", "/var/log/"}}) {
    const auto names = all_of(unit, std::string(directive) + R"(=(\S+))");
    ASSERT_EQ(names.size(), 1u) << directive;
    EXPECT_NE(purge.find(above + names[0]), std::string::npos) << directive;
  }
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

// Runs the scripts with other paths for the daemon and systemd, and a sleeping program instead of the daemon.
TEST(Package, ScriptsReportAnOldDaemonWithoutSystemd) {
  if (::access("/proc/self", F_OK) != 0) GTEST_SKIP() << "there is no /proc here";
  const Folder folder;
  const std::string program = folder / "headgated", stubs = folder / "stubs";
  fs::copy_file(fs::canonical("/bin/sleep"), program);
  fs::create_directory(stubs);
  std::ofstream(stubs + "/systemd-sysusers") << "#!/bin/sh\n";
  fs::permissions(stubs + "/systemd-sysusers", fs::perms(0755));
  for (const auto& [name, argument] : {std::pair{"postinst", "configure"}, std::pair{"postrm", "remove"}}) {
    std::string script = text_of(fs::path(DEPLOY_DIR) / "debian" / name);
    script = replaced(script, "/usr/sbin/headgated", program);
    std::ofstream(folder / name) << replaced(script, "/run/systemd/system", folder / "none");
    const std::string scripts = "sh " + (folder / name) + " " + argument;
    const Said said = run("{ cp " + program + " " + program + ".kept; " + program +
                          " 60 & p=$!; until [ \"$(readlink /proc/$p/exe)\" = " + program + " ]; do :; done; rm " +
                          program + "; PATH=" + stubs + ":$PATH " + scripts + "; echo pid $p; kill $p; mv " + program +
                          ".kept " + program + "; }");
    const auto pid = all_of(said.text, "pid ([0-9]+)\\n");
    ASSERT_EQ(pid.size(), 1u) << said.text;
    EXPECT_TRUE(said.text.contains("headgated (pid " + pid[0] + ") still runs")) << name << ": " << said.text;
  }
}

TEST(Manual, HasEachOptionOfTheDaemon) {
  std::string page = text_of(DOCS_DIR "/headgated.8");
  std::erase(page, '\\');  // "\-\-sim" is --sim
  const auto options = all_of(text_of(DOCS_DIR "/../src/daemon/options.cpp"), R"((--[a-z]+))");
  EXPECT_GE(options.size(), 8u);
  for (const auto& option : options) EXPECT_NE(page.find(option), std::string::npos) << option;
}

// Uses promtool, Prometheus's checker of pages and rules, as unpacked by dev/real-parts.
class Promtool : public testing::Test {
 protected:
  void SetUp() override {
    if (::access(PROMTOOL, X_OK) != 0) GTEST_SKIP() << "dev/real-parts has not been run";
  }
};

TEST_F(Promtool, AcceptsTheMetricsPage) {
  const Said said = run(PROMTOOL " check metrics <" METRICS_PAGE);
  EXPECT_EQ(said.status, 0) << said.text;
  EXPECT_EQ(said.text, "");
}

TEST_F(Promtool, AcceptsTheRulesAndSeesEachAlertFireAsExpected) {
  const Folder folder;
  fs::copy_file(DEPLOY_DIR "/prometheus/headgate.rules.yml", folder / "headgate.rules.yml");
  fs::copy_file(RULES_TEST, folder / "rules_test.yml");
  const Said check = run(PROMTOOL " check rules --lint-fatal " + folder / "headgate.rules.yml");
  EXPECT_EQ(check.status, 0) << check.text;
  const Said test = run(PROMTOOL " test rules " + folder / "rules_test.yml");
  EXPECT_EQ(test.status, 0) << test.text;
}

TEST_F(Promtool, UnderstandsEachQueryOfTheBoard) {
  Json queries = Json::array();
  each_panel(board(), [&](const Json& panel) {
    for (const Json& target : panel.at("targets")) {
      // Grafana substitutes this variable before a query.
      const auto asked =
          std::regex_replace(target.at("expr").get<std::string>(), std::regex(R"(\$__rate_interval)"), "5m");
      queries.push_back({{"record", "panel:" + std::to_string(queries.size())}, {"expr", asked}});
    }
  });
  const Folder folder;
  std::ofstream(folder / "board.yml") << Json{{"groups", {{{"name", "board"}, {"rules", queries}}}}};
  const Said said = run(PROMTOOL " check rules --lint=none " + folder / "board.yml");
  EXPECT_EQ(said.status, 0) << said.text;
  EXPECT_NE(said.text.find(std::to_string(queries.size()) + " rules found"), std::string::npos) << said.text;
}

// Queries on a counter that starts with its first event. rate() and increase() would miss that event, and the dashboard
// would show no error.
TEST_F(Promtool, TheBoardSeesTheFirstOfEachKind) {
  struct Asked {
    std::string title, series, labels;
  };
  const Asked all[] = {{"GPU errors, 24 h", R"(headgate_gpu_xid_events_total{instance="n",uuid="G",xid="79"})", "{}"},
                       {"Allocations refused",
                        R"(headgate_share_allocation_denied_total{instance="n",share="s",uuid="G",reason="limit"})",
                        R"({instance="n",share="s",uuid="G",reason="limit"})"},
                       {"Events", R"(headgate_daemon_events_total{instance="n",kind="audit.outside"})",
                        R"({instance="n",kind="audit.outside"})"}};
  Json tests = Json::array();
  for (const auto& asked : all) {
    std::string query;
    each_panel(board(), [&](const Json& panel) {
      if (panel.at("title") == asked.title) query = panel.at("targets").at(0).at("expr").get<std::string>();
    });
    ASSERT_NE(query, "") << asked.title;
    query = std::regex_replace(query, std::regex(R"(\$__rate_interval)"), "4m");
    query = std::regex_replace(query, std::regex(R"(\$[a-z]+)"), ".*");
    tests.push_back(
        {{"interval", "1m"},
         {"input_series", {{{"series", asked.series}, {"values", "_x9 1x10"}}}},
         {"promql_expr_test",
          {{{"expr", query}, {"eval_time", "11m"}, {"exp_samples", {{{"labels", asked.labels}, {"value", 1}}}}}}}});
  }
  const Folder folder;
  std::ofstream(folder / "first.yml") << Json{{"tests", tests}};
  const Said said = run(PROMTOOL " test rules " + folder / "first.yml");
  EXPECT_EQ(said.status, 0) << said.text;
}

class Unit : public testing::Test {
 protected:
  void SetUp() override {
    if (run("command -v systemd-analyze").status != 0) GTEST_SKIP() << "there is no systemd-analyze";
    // The test judges the unit, and must not depend on whether the daemon is installed.
    const std::string text = text_of(DEPLOY_DIR "/systemd/headgated.service");
    std::ofstream(unit_) << std::regex_replace(text, std::regex("/usr/sbin/headgated"), "/bin/sh");
    fs::copy_file(DEPLOY_DIR "/systemd/run-headgate.mount", mount_);
  }
  Folder folder_;
  std::string unit_ = folder_ / "headgated.service", mount_ = folder_ / "run-headgate.mount";
};

TEST_F(Unit, HasNoUnknownDirective) {
  const Said said = run("SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no " + unit_ + " " + mount_);
  EXPECT_EQ(said.status, 0) << said.text;
  EXPECT_EQ(said.text, "");
}

TEST_F(Unit, LeavesTheDaemonOnlyTheRightsThatWereReviewed) {
  // In tenths. Most of the rest is CAP_SYS_ADMIN, root itself, and access to other users' processes. MPS servers, which
  // switch to their clients' users, cost 3.
  const Said said = run("systemd-analyze security --no-pager --offline=true --threshold=41 " + unit_);
  EXPECT_EQ(said.status, 0) << said.text.substr(said.text.size() - std::min<std::size_t>(said.text.size(), 200));
}

}  // namespace
}  // namespace headgate
