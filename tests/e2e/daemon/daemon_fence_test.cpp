// The driver's own limits of memory by cgroup (release 615), which the daemon sets for runs of a share: with programs
// that the limiter does not reach, on a simulated node of that release and real cgroups.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon_program.hpp"
#include "sim/truth.hpp"

namespace headgate::e2e {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kGiB = 1ull << 30;
constexpr const char* kSet = "nvmlDeviceSetMemoryLimits_v1";

std::string unified_mount() {
  for (const char* mount : {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"})
    if (fs::exists(std::string(mount) + "/cgroup.procs") && fs::exists(std::string(mount) + "/cgroup.controllers"))
      return mount;
  return {};
}

// A cgroup of the test, removed with its processes.
class TestCgroup {
 public:
  explicit TestCgroup(const std::string& name) : path_(unified_mount() + "/" + name) {
    made_ = !unified_mount().empty() && ::mkdir(path_.c_str(), 0755) == 0;
  }
  ~TestCgroup() {
    if (made_) static_cast<void>(eventually([&] { return ::rmdir(path_.c_str()) == 0 || !fs::exists(path_); }));
  }
  TestCgroup(const TestCgroup&) = delete;
  [[nodiscard]] bool made() const { return made_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // Words that put a shell into the cgroup and then execute what follows.
  [[nodiscard]] std::string enter() const { return "echo 0 > " + path_ + "/cgroup.procs; exec "; }

 private:
  std::string path_;
  bool made_ = false;
};

// Whether a cgroup of a run, below this program's, is kept for its limit.
bool is_limit_left() {
  std::ifstream own("/proc/self/cgroup");
  std::string path;
  for (std::string line; std::getline(own, line);)
    if (line.starts_with("0::")) path = unified_mount() + line.substr(3);
  std::error_code failed;
  for (fs::directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed))
    if (fs::exists(entry->path() / "headgate-limit")) return true;
  return false;
}

bool makes_cgroups() { return TestCgroup("headgate-test-" + std::to_string(::getpid())).made(); }

class DaemonFence : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!makes_cgroups()) GTEST_SKIP() << "this machine makes no cgroups";
    ASSERT_EQ(daemon_.cli().shell("$H share create a --mem 2GiB").status, 0);
  }
  // The test's programs have ended. Only a daemon removes their cgroups while those have a limit.
  void TearDown() override {
    EXPECT_TRUE(eventually([] { return !is_limit_left(); }));
  }
  // A program behind a shell, as `headgate run` refuses one that it sees to be static.
  [[nodiscard]] std::vector<std::string> run(const std::string& program) const {
    return {HEADGATE_COMMAND, "run", "--share", "a", "--", "/bin/sh", "-c", "exec " + program};
  }
  [[nodiscard]] std::map<std::string, std::string> environment() const {
    return {{"HEADGATE_RUNTIME_DIR", daemon_.cli().runtime()}};
  }
  [[nodiscard]] bool driver_holds(std::uint64_t bytes) const {
    return eventually([&] { return daemon_.share("a").devices.at(0).driver_limit_bytes == bytes; });
  }
  // The last call that set a limit; value and second_value are the soft and the hard limit.
  [[nodiscard]] std::optional<sim::SettingTruth> last_set() const {
    std::optional<sim::SettingTruth> last;
    const auto truth = sim::read_truth(daemon_.cli().directory() + "/node");
    if (truth)
      for (const auto& setting : truth->settings)
        if (setting.function == kSet) last = setting;
    return last;
  }
  [[nodiscard]] bool nothing_is_set() const {
    return eventually([&] {
      const auto last = last_set();
      return last && last->value == 0 && last->second_value == ~0ull && last->answer == 0;
    });
  }
  void fault(const std::string& rules) const {
    ASSERT_EQ(daemon_.cli().shell("HEADGATE_SIM_DIR=$D/node $H sim fault --sim " + rules).status, 0);
  }
  static std::string answer(Program& program, const std::string& question) {
    program.say(question);
    return program.line();
  }

  Daemon daemon_{{}, "base = \"h200-r615\"\nname = \"fenced\"\n"};
};

// CUDA_ERROR_OUT_OF_MEMORY
constexpr const char* kRefused = "2";

#ifdef BYPASS_STATIC
TEST_F(DaemonFence, AStaticProgramIsRefusedByTheDriver) {
  Program rogue(run(BYPASS_STATIC), environment());
  ASSERT_EQ(rogue.line(), "ready 0") << rogue.errors();
  ASSERT_TRUE(driver_holds(2 * kGiB));
  EXPECT_EQ(answer(rogue, "alloc " + std::to_string(kGiB)), "0");
  EXPECT_EQ(answer(rogue, "alloc " + std::to_string(kGiB)), kRefused) << "with its context";
  ASSERT_EQ(daemon_.cli().shell("$H share set a --mem 4GiB").status, 0);
  ASSERT_TRUE(driver_holds(4 * kGiB));
  EXPECT_EQ(answer(rogue, "alloc " + std::to_string(kGiB)), "0");
  EXPECT_TRUE(eventually([&] { return daemon_.share("a").devices.at(0).driver_used_bytes > 2 * kGiB; }));
  ::kill(rogue.pid(), SIGTERM);
  rogue.wait();
  EXPECT_TRUE(nothing_is_set());
  const std::string left = unified_mount() + "/headgate-run-" + std::to_string(rogue.pid());
  EXPECT_TRUE(eventually([&] { return !fs::exists(left); })) << left;
}

// The ledger knows nothing of what it has.
TEST_F(DaemonFence, WhatOnlyTheDriverCountsIsNamedByTheAudit) {
  Program rogue(run(BYPASS_STATIC), environment());
  ASSERT_EQ(rogue.line(), "ready 0") << rogue.errors();
  ASSERT_EQ(answer(rogue, "alloc " + std::to_string(kGiB)), "0");
  EXPECT_TRUE(eventually([&] {
    return daemon_.ask("GET", "/v1/events").body.contains("in the cgroups of share a, whose ledger has");
  })) << daemon_.ask("GET", "/v1/events").body;
}

TEST_F(DaemonFence, ALimitOutlivesAKilledDaemonAndIsTheNextOnes) {
  Program rogue(run(BYPASS_STATIC), environment());
  ASSERT_EQ(rogue.line(), "ready 0") << rogue.errors();
  ASSERT_TRUE(driver_holds(2 * kGiB));
  daemon_.kill_and_wait();
  EXPECT_EQ(answer(rogue, "alloc " + std::to_string(3 * kGiB)), kRefused);
  daemon_.start();
  ASSERT_TRUE(driver_holds(2 * kGiB));
  daemon_.kill_and_wait();
  ::kill(rogue.pid(), SIGTERM);
  rogue.wait();
  daemon_.start();
  EXPECT_TRUE(nothing_is_set());
}

// Before the limit is set, after it was set, and before it is removed.
TEST_F(DaemonFence, ADaemonKilledAtAnyStepIsFollowedByOneThatMendsIt) {
  const auto is_noted = [&] {
    std::ifstream file(daemon_.cli().runtime() + "/driver-limits");
    return std::string((std::istreambuf_iterator<char>(file)), {}).contains("/headgate-run-");
  };
  const std::string hangs = "nvmlDeviceSetMemory*:delay_us=60000000";
  for (const bool is_set : {false, true}) {
    if (!is_set) fault(hangs);
    std::optional<Program> rogue;
    rogue.emplace(run(BYPASS_STATIC), environment());
    ASSERT_EQ(rogue->line(), "ready 0") << rogue->errors();
    ASSERT_TRUE(eventually(is_noted)) << is_set;
    ASSERT_TRUE(!is_set || eventually([&] { return last_set()->value == 2 * kGiB; }));
    daemon_.kill_and_wait();
    fault("clear");
    daemon_.start();
    ASSERT_TRUE(driver_holds(2 * kGiB)) << is_set;
    EXPECT_EQ(answer(*rogue, "alloc " + std::to_string(3 * kGiB)), kRefused);
    fault(hangs);
    ::kill(rogue->pid(), SIGTERM);
    rogue->wait();
    daemon_.kill_and_wait();
    fault("clear");
    daemon_.start();
    EXPECT_TRUE(nothing_is_set()) << is_set;
    EXPECT_TRUE(eventually([&] { return !is_noted(); })) << is_set;
  }
}
#endif

TEST_F(DaemonFence, TheLevelOfARunIsHookAndDriver) {
  Program member({HEADGATE_COMMAND, "run", "--share", "a", "--", BYPASS_PROGRAM, "libcuda.so.1"}, environment());
  ASSERT_EQ(member.line(), "ready 0") << member.errors();
  EXPECT_TRUE(eventually([&] { return daemon_.share("a").level == "hook+driver"; })) << daemon_.share("a").level;
  const std::string shown = daemon_.cli().shell("$H share show a").out;
  EXPECT_NE(shown.find("the driver holds its memory too: 2.0 GiB for each run and container"), std::string::npos)
      << shown;
  EXPECT_NE(daemon_.cli().shell("$H status -o wide").out.find("hook+driver"), std::string::npos);
  EXPECT_NE(daemon_.cli().shell("$H doctor").out.find("level hook+driver"), std::string::npos);
  ::kill(member.pid(), SIGTERM);
  member.wait();
  EXPECT_EQ(daemon_.cli().shell("$H share rm a").status, 0);
  EXPECT_TRUE(nothing_is_set());
}

// A container's cgroup is known by its name. Its programs are in the share; one beside them is not, and is held too.
TEST_F(DaemonFence, AContainersCgroupIsHeldUntilItIsEmpty) {
  const TestCgroup container("libpod-" + std::string(64, 'd') + ".scope");
  ASSERT_TRUE(container.made());
  std::map<std::string, std::string> inside = {{"HEADGATE_SHARE", "a"},
                                               {"HEADGATE_SHARE_DIR", daemon_.cli().runtime() + "/shares/a"},
                                               {"HEADGATE_RUNTIME_DIR", daemon_.cli().runtime()},
                                               {"HEADGATE_SIM_DIR", daemon_.cli().directory() + "/node"},
                                               {"LD_LIBRARY_PATH", SIMULATOR_DIR}};
  const std::string words = container.enter();
  std::optional<Program> member;
  member.emplace(
      std::vector<std::string>{"/bin/sh", "-c",
                               words + "env LD_PRELOAD=" HEADGATE_LIMITER " " BYPASS_PROGRAM " libcuda.so.1"},
      inside);
  Program rogue({"/bin/sh", "-c", words + BYPASS_PROGRAM " libcuda.so.1"}, inside);
  ASSERT_EQ(member->line(), "ready 0") << member->errors();
  ASSERT_EQ(rogue.line(), "ready 0") << rogue.errors();
  EXPECT_TRUE(eventually([&] { return daemon_.share("a").level == "hook+driver"; })) << daemon_.share("a").level;
  EXPECT_EQ(answer(rogue, "alloc " + std::to_string(2 * kGiB)), kRefused);
  member.reset();
  // The one that remains is still held.
  EXPECT_TRUE(eventually([&] { return daemon_.share("a").processes == 0; }));
  EXPECT_EQ(answer(rogue, "alloc " + std::to_string(2 * kGiB)), kRefused);
  ::kill(rogue.pid(), SIGTERM);
  rogue.wait();
  EXPECT_TRUE(nothing_is_set());
}

TEST_F(DaemonFence, ARefusalIsToldOnceAndTheLevelStaysHook) {
  fault("nvmlDeviceSetMemory*:fail=3");
  Program member({HEADGATE_COMMAND, "run", "--share", "a", "--", BYPASS_PROGRAM, "libcuda.so.1"}, environment());
  ASSERT_EQ(member.line(), "ready 0") << member.errors();
  ASSERT_TRUE(eventually([&] { return !daemon_.share("a").driver_problem.empty(); }));
  EXPECT_EQ(daemon_.share("a").level, "hook");
  const std::string sentence = "is refused: not supported (it wants version 2 at /sys/fs/cgroup, and no MIG)";
  EXPECT_NE(daemon_.cli().shell("$H why").out.find(sentence), std::string::npos);
  EXPECT_NE(daemon_.cli().shell("$H doctor").out.find(sentence), std::string::npos);
  const std::string events = daemon_.ask("GET", "/v1/events").body;
  const std::size_t first = events.find("\"driver.limit\"");
  ASSERT_NE(first, std::string::npos) << events;
  EXPECT_EQ(events.find("\"driver.limit\"", first + 1), std::string::npos) << events;
}

}  // namespace
}  // namespace headgate::e2e
