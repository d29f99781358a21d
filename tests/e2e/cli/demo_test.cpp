// headgate demo as a whole: what it shows and promises, and that it leaves nothing behind.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "load/child.hpp"

namespace headgate::e2e {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

bool within(seconds patience, const std::function<bool()>& met) {
  for (const auto deadline = Clock::now() + patience; Clock::now() < deadline;) {
    if (met()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return met();
}

// Uses a private directory for temporary files, with nothing else in it.
class Demo : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = (std::filesystem::temp_directory_path() / "headgate-demo-XXXXXX").string();
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  [[nodiscard]] load::Child start(const std::vector<std::string>& words) const {
    load::ChildSpec spec;
    spec.argv = {HEADGATE_COMMAND, "demo"};
    spec.argv.insert(spec.argv.end(), words.begin(), words.end());
    spec.environment = {{"TMPDIR", directory_}};
    spec.without = {"HEADGATE_*"};
    auto child = load::Child::start(spec);
    EXPECT_TRUE(child) << child.error().message;
    return std::move(*child);
  }
  [[nodiscard]] bool anything_left() const { return !std::filesystem::is_empty(directory_); }
  // Returns the daemon's control socket, which exists once it is ready; empty if there is none.
  [[nodiscard]] std::string socket() const {
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      const auto path = entry.path() / "run/control/headgate.sock";
      if (std::filesystem::exists(path)) return path.string();
    }
    return "";
  }
  // Returns true if a daemon or tenant of the demo still runs. Each has the directory in its environment or arguments.
  [[nodiscard]] bool anybody_left() const {
    return std::system(("grep -qslF " + directory_ + " /proc/[0-9]*/environ").c_str()) == 0;
  }

  std::string directory_;
};

// On a very busy machine the trainer cannot use its half of the GPU; the demo then says so. All else holds anywhere.
TEST_F(Demo, ShowsSixTenantsAndTheEffectOnEach) {
  load::Child demo = start({"--seconds=14"});
  const load::ChildEnd end = demo.wait(Clock::now() + seconds(90));
  EXPECT_TRUE(end.status == 0 || end.status == 1) << end.status << end.out << end.err;
  for (const char* told : {"SIMULATED", "trainer", "server", "notebook", "leaker", "over-asker", "bypasser",
                           "WHAT HEADGATE DOES", "refused", "no limit applies to it", "PROMISED"})
    EXPECT_NE(end.out.find(told), std::string::npos) << told << "\n" << end.out;
  EXPECT_EQ(end.out.find('\x1b'), std::string::npos) << "colours in a pipe";
  EXPECT_FALSE(anything_left());
}

TEST_F(Demo, HasTheFiguresOfEachPromiseInJson) {
  load::Child demo = start({"--seconds=12", "--json"});
  const load::ChildEnd end = demo.wait(Clock::now() + seconds(90));
  const auto document = nlohmann::json::parse(end.out, nullptr, false);
  ASSERT_FALSE(document.is_discarded()) << end.out << end.err;
  EXPECT_EQ(document["schema"], "headgate.demo/v2");
  EXPECT_EQ(document["simulated"], true);
  EXPECT_EQ(document["kept"], end.status == 0);
  ASSERT_EQ(document["tenants"].size(), 6u);
  for (const auto& tenant : document["tenants"]) {
    EXPECT_LE(tenant["memory_peak_bytes"], tenant["memory_limit_bytes"]) << tenant;
    if (tenant["tenant"] == "trainer") {
      EXPECT_LE(tenant["held_ratio"].get<double>(), 0.51) << tenant;
    } else {
      EXPECT_EQ(tenant["kept"], true) << tenant;
    }
  }
}

TEST_F(Demo, LeavesNoFileAndNoProcessAfterASignal) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    load::Child demo = start({});
    ASSERT_TRUE(within(seconds(60), [&] { return !socket().empty(); })) << demo.so_far().err;
    ::kill(demo.pid(), signal);
    const load::ChildEnd end = demo.wait(Clock::now() + seconds(30));
    EXPECT_EQ(end.status, 128 + signal) << end.err;
    EXPECT_FALSE(end.timed_out);
    EXPECT_FALSE(anything_left());
    EXPECT_FALSE(anybody_left());
  }
}

TEST_F(Demo, EndsItsDaemonAndTenantsWhenKilled) {
  if (::access("/proc/self/environ", R_OK) != 0) GTEST_SKIP() << "skipped without /proc/self";
  load::Child demo = start({});
  ASSERT_TRUE(within(seconds(60), [&] { return !socket().empty(); })) << demo.so_far().err;
  EXPECT_TRUE(anybody_left());
  ::kill(demo.pid(), SIGKILL);
  EXPECT_TRUE(within(seconds(30), [&] { return !anybody_left(); }));
}

TEST_F(Demo, NamesUnknownArguments) {
  for (const std::string word : {"--seconds=3", "--seconds=x", "--twice", "loud"}) {
    load::Child demo = start({word});
    const load::ChildEnd end = demo.wait(Clock::now() + seconds(30));
    EXPECT_EQ(end.status, 2);
    EXPECT_NE(end.err.find(word), std::string::npos) << end.err;
    const char* hint = word.starts_with("--seconds") ? "--seconds=N" : "headgate demo --help";
    EXPECT_NE(end.err.find(hint), std::string::npos) << end.err;
  }
  EXPECT_FALSE(anything_left());
}

}  // namespace
}  // namespace headgate::e2e
