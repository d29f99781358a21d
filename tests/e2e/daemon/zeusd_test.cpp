// `headgate zeusd serve` as a zeusd client sees it: a socket backed by a simulated node.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli_program.hpp"
#include "daemon_program.hpp"
#include "http/client.hpp"
#include "sim_program.hpp"

namespace headgate::e2e {
namespace {

using nlohmann::json;

bool is_socket(const std::string& path) {
  struct stat facts{};
  return ::stat(path.c_str(), &facts) == 0 && S_ISSOCK(facts.st_mode);
}

class Serve {
 public:
  explicit Serve(std::vector<std::string> words = {"--sim=l40s-x2"})
      : socket_(cli_.directory() + "/run/zeusd/zeusd.sock") {
    words.insert(words.begin(), {HEADGATE_COMMAND, "zeusd", "serve", "--socket-path", socket_});
    program_ =
        std::make_unique<Program>(words, std::map<std::string, std::string>{{"HEADGATE_RUNTIME_DIR", cli_.runtime()}});
    EXPECT_TRUE(eventually([&] { return ask("GET", "/time").status == 200; })) << program_->errors_so_far();
  }

  struct Answer {
    int status = -1;
    std::string body;
  };
  [[nodiscard]] Answer ask(const std::string& method, const std::string& target,
                           const http::Fields& headers = {}) const {
    const auto response = http::exchange({.path = socket_}, {.method = method, .target = target, .headers = headers},
                                         std::chrono::seconds(20));
    return response ? Answer{response->status, response->body} : Answer{-1, response.error().message};
  }
  [[nodiscard]] json read(const std::string& target) const {
    return json::parse(ask("GET", target).body, nullptr, false);
  }
  // Returns the settings that the simulated driver received, in order: "nvmlDeviceSetPowerManagementLimit 0 200000".
  [[nodiscard]] std::vector<std::string> settings() const {
    const json truth = json::parse(cli_.shell("$H sim truth --sim=l40s-x2 --json").out, nullptr, false);
    std::vector<std::string> all;
    for (const json& one : truth.value("nvml_settings", json::array()))
      all.push_back(one["function"].get<std::string>() + " " + std::to_string(one["gpu"].get<int>()) + " " +
                    std::to_string(one["value"].get<int>()));
    return all;
  }
  [[nodiscard]] const std::string& socket() const { return socket_; }
  [[nodiscard]] const Cli& cli() const { return cli_; }
  Program& program() { return *program_; }

 private:
  Cli cli_;
  std::string socket_;
  std::unique_ptr<Program> program_;
};

TEST(Zeusd, SetsAndResetsTheGpusOfASimulatedNode) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  const Serve zeusd;
  EXPECT_EQ(zeusd.read("/discover")["gpus"].size(), 2u);
  EXPECT_EQ(zeusd.ask("POST", "/gpu/set_persistence_mode?gpu_ids=0&enabled=false&block=true").status, 200);
  EXPECT_EQ(zeusd.ask("POST", "/gpu/set_power_limit?gpu_ids=0%2C1&power_limit_mw=200000&block=true").status, 200);
  EXPECT_EQ(
      zeusd.ask("POST", "/gpu/set_gpu_locked_clocks?gpu_ids=1&min_clock_mhz=500&max_clock_mhz=900&block=true").status,
      200);
  EXPECT_EQ(zeusd.ask("POST", "/gpu/reset_locked_clocks?gpu_ids=1&block=true").status, 200);
  EXPECT_EQ(zeusd.read("/gpu/get_power_limit"),
            json::parse(R"({"0":{"power_limit_mw":200000},"1":{"power_limit_mw":200000}})"));
  EXPECT_EQ(zeusd.read("/gpu/get_persistence_mode"), json::parse(R"({"0":{"enabled":false},"1":{"enabled":true}})"));
  EXPECT_EQ(zeusd.read("/gpu/get_power_limit_constraints?gpu_ids=0")["0"]["max_power_limit_mw"], 350'000);
  const auto refused = zeusd.ask("POST", "/gpu/set_power_limit?gpu_ids=0&power_limit_mw=400000&block=true");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("accepted: 100 W to 350 W"), std::string::npos) << refused.body;
  auto settings = zeusd.settings();
  std::ranges::sort(settings);
  const std::vector<std::string> expected = {
      "nvmlDeviceResetGpuLockedClocks 1 0",         "nvmlDeviceResetMemoryLockedClocks 1 0",
      "nvmlDeviceSetGpuLockedClocks 1 500",         "nvmlDeviceSetPersistenceMode 0 0",
      "nvmlDeviceSetPowerManagementLimit 0 200000", "nvmlDeviceSetPowerManagementLimit 0 400000",
      "nvmlDeviceSetPowerManagementLimit 1 200000"};
  EXPECT_EQ(settings, expected);
}

TEST(Zeusd, EachCommandIsLoggedWithItsTimeAndItsCaller) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  Serve zeusd;
  EXPECT_EQ(zeusd.ask("POST", "/gpu/set_power_limit?gpu_ids=0&power_limit_mw=200000&block=true").status, 200);
  EXPECT_EQ(zeusd.ask("POST", "/gpu/set_power_limit?gpu_ids=0&power_limit_mw=1&block=true").status, 400);
  zeusd.program().kill_now();
  zeusd.program().wait();
  const std::string log = zeusd.program().errors();
  EXPECT_NE(log.find("of uid 0: GPU 0 set_power_limit 200 W: 350 W -> 200 W (done in "), std::string::npos) << log;
  EXPECT_NE(log.find("own part "), std::string::npos) << log;
  EXPECT_NE(log.find("set_power_limit 0.001 W FAILED: "), std::string::npos) << log;
}

TEST(Zeusd, TokensAreIssuedAndRequired) {
  const Cli cli;
  EXPECT_EQ(cli.shell("umask 077; printf 'the key\\n' > " + cli.directory() + "/key").status, 0);
  const std::string key = cli.directory() + "/key";
  const Said issued =
      cli.shell("$H zeusd token issue --signing-key-path " + key + " --user alice --scope gpu-read --expires 1h");
  EXPECT_EQ(issued.status, 0) << issued.err;
  const std::string token = issued.out.substr(0, issued.out.find('\n'));
  const Serve zeusd({"--sim=l40s-x2", "--signing-key-path", key});
  EXPECT_EQ(zeusd.ask("GET", "/gpu/get_power").status, 401);
  const http::Fields bearing = {{"Authorization", "Bearer " + token}};
  EXPECT_EQ(zeusd.ask("GET", "/gpu/get_power", bearing).status, 200);
  EXPECT_EQ(zeusd.ask("POST", "/gpu/reset_locked_clocks?gpu_ids=0&block=true", bearing).status, 403);
  const json who = json::parse(zeusd.ask("GET", "/auth/whoami", bearing).body, nullptr, false);
  EXPECT_EQ(who["sub"], "alice");
  EXPECT_EQ(who["scopes"], json::parse(R"(["gpu-read"])"));
}

TEST(Zeusd, TheSocketHasItsModeAndIsRemovedAtTheEnd) {
  Serve zeusd({"--sim=l40s-x2", "--socket-permissions", "660"});
  struct stat facts{};
  ASSERT_EQ(::stat(zeusd.socket().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0660u);
  const std::string start = "$H zeusd serve --sim=l40s-x2 --socket-path " + zeusd.socket();
  const Said second = zeusd.cli().shell(start);
  EXPECT_NE(second.status, 0);
  EXPECT_NE(second.err.find("another server listens on"), std::string::npos) << second.err;
  EXPECT_EQ(zeusd.ask("GET", "/time").status, 200) << "the first goes on";
  ::kill(zeusd.program().pid(), SIGTERM);
  EXPECT_EQ(zeusd.program().wait(), 0);
  EXPECT_FALSE(is_socket(zeusd.socket()));
}

TEST(Zeusd, AStaleSocketIsReplacedAndAFileIsNot) {
  Serve first;
  first.program().kill_now();
  first.program().wait();
  ASSERT_TRUE(is_socket(first.socket())) << "a killed server leaves it behind";
  Program again({HEADGATE_COMMAND, "zeusd", "serve", "--sim=l40s-x2", "--socket-path", first.socket()},
                {{"HEADGATE_RUNTIME_DIR", first.cli().runtime()}});
  EXPECT_TRUE(eventually([&] { return first.ask("GET", "/time").status == 200; }));
  const std::string file = first.cli().directory() + "/file";
  std::ofstream(file) << "mine";
  const Said refused = first.cli().shell("$H zeusd serve --sim=l40s-x2 --socket-path " + file);
  EXPECT_NE(refused.status, 0);
  EXPECT_NE(refused.err.find("exists and is no socket"), std::string::npos) << refused.err;
  EXPECT_TRUE(std::filesystem::is_regular_file(file));
}

// Returns the line that a server prints when it is ready; empty if it never is.
std::string ready_line(Program& server) {
  std::string said;
  EXPECT_TRUE(eventually([&] {
    said += server.errors_so_far();
    return said.contains("answers at ");
  })) << said;
  return said;
}

TEST(Zeusd, AnswersOverTcp) {
  const Cli cli;
  Program server({HEADGATE_COMMAND, "zeusd", "serve", "--sim=l40s-x2", "--mode", "tcp", "--tcp-bind-address",
                  "127.0.0.1:0", "--gpu-power-poll-hz", "50", "--cpu-power-poll-hz", "5", "--num-workers", "10"},
                 {{"HEADGATE_RUNTIME_DIR", cli.runtime()}});
  const std::string ready = ready_line(server), place = "http://127.0.0.1:";
  EXPECT_TRUE(ready.contains("every client that reaches it can set the GPUs")) << "there is no key";
  const auto at = ready.find(place);
  ASSERT_NE(at, std::string::npos) << ready;
  const std::string url = ready.substr(at, ready.find('\n', at) - at);
  const Said found = cli.shell("curl -s " + url + "/discover");
  EXPECT_EQ(json::parse(found.out, nullptr, false)["gpus"].size(), 2u) << found.out << found.err;
  EXPECT_TRUE(cli.shell("$H zeusd serve --help").out.contains("--tcp-bind-address ADDR:PORT  127.0.0.1:4938"));
}

TEST(Zeusd, StartsWithoutRootWithWhatNeedsNone) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const Cli cli;
  const std::string as =
      "setpriv --reuid 4001 --regid 4001 --clear-groups " HEADGATE_DAEMON " zeusd serve --socket-path ";
  for (const char* group : {"gpu-control", "cpu-read"}) {
    const Said said = cli.shell(as + cli.directory() + "/s --enable " + group);
    EXPECT_EQ(said.status, 5) << said.err;
    EXPECT_TRUE(said.err.contains("API group " + std::string(group) + " needs root")) << said.err;
  }
}

// `auto` starts on a machine without a driver; `nvml` does not.
TEST(Zeusd, StartsWithoutGpusUnlessTheyAreRequired) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: gpu-control is on";
  const Cli cli;
  const std::string socket = cli.directory() + "/s";
  const std::vector<std::string> words = {HEADGATE_DAEMON, "zeusd", "serve", "--socket-path", socket};
  const std::map<std::string, std::string> nowhere = {{"LD_LIBRARY_PATH", "/nothing"}};
  Program server(words, nowhere);
  EXPECT_TRUE(ready_line(server).contains("0 GPUs; answers at " + socket));
  const auto found = http::exchange({.path = socket}, {.target = "/discover"}, std::chrono::seconds(20));
  ASSERT_TRUE(found);
  EXPECT_EQ(json::parse(found->body, nullptr, false)["gpus"].size(), 0u);
  std::vector<std::string> asked = words;
  asked.back() += "2";
  asked.insert(asked.end(), {"--gpu-backend", "nvml"});
  Program refused(asked, nowhere);
  EXPECT_NE(refused.wait(), 0);
}

TEST(Zeusd, ABadOptionEndsTheStartWithWhatIsAccepted) {
  const Cli cli;
  const std::pair<const char*, const char*> bad[] = {
      {"serve --mode named-pipe", "accepted: uds, tcp"},
      {"serve --gpu-backend amdsmi", "accepted: auto, nvml"},
      {"serve --enable gpu-write", "'gpu-write' is no API group"},
      {"serve --gpu-power-poll-hz 0", "accepted: 1 to 1000"},
      {"serve --socket-permissions 999", "an octal mode"},
      {"serve --unknown 1", "unknown option '--unknown'"},
      {"serve --mode", "--mode needs a value"},
      {"start", "unknown command 'start'"},
      {"token issue --user a", "token issue needs --signing-key-path"},
  };
  for (const auto& [words, expected] : bad) {
    const Said said = cli.shell(std::string("$H zeusd ") + words);
    EXPECT_EQ(said.status, 2) << words << said.err;
    EXPECT_NE(said.err.find(expected), std::string::npos) << words << ": " << said.err;
  }
  EXPECT_NE(cli.shell("$H zeusd serve --help").out.find("--tcp-bind-address"), std::string::npos);
  EXPECT_TRUE(cli.shell("$H zeusd --version").out.starts_with("zeusd (headgate "));
}

}  // namespace
}  // namespace headgate::e2e
