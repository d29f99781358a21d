// Limiters under a daemon do not call NVML: their share's node page has what the driver reports about them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "daemon_program.hpp"
#include "sim/truth.hpp"

namespace headgate::e2e {
namespace {

constexpr std::uint64_t kMiB = 1ull << 20;

class NodePage : public ::testing::Test {
 protected:
  NodePage() { EXPECT_EQ(daemon_.cli().shell("$H share create alice --mem 4GiB").status, 0); }

  [[nodiscard]] std::map<std::string, std::string> tenant() const {
    return {{"HEADGATE_SHARE_DIR", daemon_.cli().runtime() + "/shares/alice"},
            {"HEADGATE_RUNTIME_DIR", daemon_.cli().runtime()},
            {"HEADGATE_SIM_DIR", node()},
            {"LD_LIBRARY_PATH", SIMULATOR_DIR},
            {"LD_PRELOAD", HEADGATE_LIMITER}};
  }
  [[nodiscard]] std::string node() const { return daemon_.cli().directory() + "/node"; }

  static std::string does(Program& program, const std::string& line) {
    program.say(line);
    return program.line();
  }
  static std::string alloc(Program& program, std::uint64_t bytes) {
    return does(program, "alloc " + std::to_string(bytes));
  }

  // Returns true if NVML is loaded in the process. A process without it has made no NVML call.
  static bool has_nvml(pid_t pid) {
    std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
    bool any = false;
    for (std::string line; std::getline(maps, line); any = true) {
      if (line.contains("libnvidia-ml")) return true;
    }
    EXPECT_TRUE(any) << "no maps of " << pid;
    return false;
  }

  [[nodiscard]] sim::ProcessTruth truth(pid_t pid) const {
    const auto read = sim::read_truth(node());
    if (read) {
      for (const auto& process : read->devices.at(0).processes) {
        if (process.pid == pid) return process;
      }
    }
    ADD_FAILURE() << "no truth of " << pid;
    return {};
  }

  Daemon daemon_;
};

TEST_F(NodePage, ALifeUnderADaemonUsesNoNvmlAndExactAccounts) {
  Program program({BYPASS_PROGRAM, "libcuda.so.1"}, tenant());
  ASSERT_EQ(program.line(), "ready 0") << program.errors();
  ASSERT_EQ(alloc(program, 100 * kMiB), "0");
  const auto first = truth(program.pid());
  ASSERT_GT(first.context_bytes, 0u);
  // The context was measured before the first allocation, so no more fits than what is left.
  const std::uint64_t left = 4096 * kMiB - 100 * kMiB - first.context_bytes;
  EXPECT_EQ(alloc(program, left + 2 * kMiB), "2");
  EXPECT_EQ(alloc(program, left), "0");
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(does(program, "info").starts_with("0 of ")) << i;
  EXPECT_EQ(alloc(program, kMiB), "2");
  const auto now = truth(program.pid());
  // The daemon's snapshot may be a tenth of a second old.
  EXPECT_TRUE(eventually([&] {
    return daemon_.share("alice").devices.at(0).memory_used_bytes == now.bytes + now.slack_bytes + now.context_bytes;
  }));
  const auto device = daemon_.share("alice").devices.at(0);
  EXPECT_EQ(device.memory_residual_bytes, now.context_bytes + now.slack_bytes);
  EXPECT_EQ(device.memory_used_bytes, now.bytes + now.slack_bytes + now.context_bytes);
  EXPECT_FALSE(has_nvml(program.pid()));
  program.close_stdin();
  EXPECT_EQ(program.wait(), 0);
}

TEST_F(NodePage, TellsEveryShareTheSizeOfAContext) {
  Program program({BYPASS_PROGRAM, "libcuda.so.1"}, tenant());
  ASSERT_EQ(program.line(), "ready 0") << program.errors();
  ASSERT_EQ(alloc(program, kMiB), "0");
  const std::uint64_t context = truth(program.pid()).context_bytes;
  EXPECT_TRUE(eventually([&] { return daemon_.share("alice").devices.at(0).context_bytes == context; }));
  const auto room = [&](std::uint64_t bytes) {
    static int made = 0;
    return daemon_.cli().shell("$H share create more" + std::to_string(++made) + " --mem " + std::to_string(bytes) +
                               "B");
  };
  EXPECT_TRUE(room(3 * context).out.contains("room for 3 processes: a CUDA context takes"));
  EXPECT_TRUE(room(3 * context - 1).out.contains("room for 2 processes"));
  EXPECT_TRUE(room(context - 1).out.contains("room for no process"));
  // The limiter refuses it without calling the driver.
  auto small = tenant();
  small["HEADGATE_SHARE_DIR"] = daemon_.cli().runtime() + "/shares/more3";
  Program refused({BYPASS_PROGRAM, "libcuda.so.1"}, small);
  EXPECT_EQ(refused.line(), "ready 2") << refused.errors();
}

// A share pays its debt before the record that opens a timed section, with and without a daemon. Both times come from
// the same run.
TEST_F(NodePage, AProgramsTimingsContainNoGateWaits) {
  ASSERT_EQ(daemon_.cli().shell("$H share create tenth --mem 1GiB --compute 10%").status, 0);
  auto environment = tenant();
  environment["HEADGATE_SHARE_DIR"] = daemon_.cli().runtime() + "/shares/tenth";
  Program program({BYPASS_PROGRAM, "libcuda.so.1"}, environment);
  ASSERT_EQ(program.line(), "ready 0") << program.errors();
  const std::string told = does(program, "timed");
  unsigned section_us = 0, each_us = 0;
  ASSERT_EQ(std::sscanf(told.c_str(), "%u of %u", &section_us, &each_us), 2) << told;
  EXPECT_LT(2 * section_us, each_us) << told;
}

TEST_F(NodePage, AContextInAPidNamespaceIsChargedToo) {
  if (daemon_.cli().shell("unshare --user --map-root-user --pid --fork true").status != 0)
    GTEST_SKIP() << "this machine makes no namespaces";
  Program program({"/usr/bin/env", "unshare", "--user", "--map-root-user", "--pid", "--kill-child", "--fork",
                   BYPASS_PROGRAM, "libcuda.so.1"},
                  tenant());
  ASSERT_EQ(program.line(), "ready 0") << program.errors();
  ASSERT_EQ(alloc(program, 100 * kMiB), "0");
  const auto read = sim::read_truth(node());
  ASSERT_TRUE(read);
  ASSERT_EQ(read->devices.at(0).processes.size(), 1u);
  const std::uint64_t context = read->devices[0].processes[0].context_bytes;
  EXPECT_TRUE(eventually([&] { return daemon_.share("alice").devices.at(0).memory_residual_bytes == context; }));
}

TEST_F(NodePage, MemoryOfTheDeadIsAvailableAtOnce) {
  {
    Program former({BYPASS_PROGRAM, "libcuda.so.1"}, tenant());
    ASSERT_EQ(former.line(), "ready 0") << former.errors();
    ASSERT_EQ(alloc(former, 3000 * kMiB), "0");
    former.kill_now();
    former.wait();
  }
  Program next({BYPASS_PROGRAM, "libcuda.so.1"}, tenant());
  ASSERT_EQ(next.line(), "ready 0") << next.errors();
  EXPECT_EQ(alloc(next, 3000 * kMiB), "0");
  EXPECT_FALSE(has_nvml(next.pid()));
}

TEST_F(NodePage, TenantsAskNvmlWithoutTheDaemon) {
  Program program({BYPASS_PROGRAM, "libcuda.so.1"}, tenant());
  ASSERT_EQ(program.line(), "ready 0") << program.errors();
  ASSERT_EQ(alloc(program, 100 * kMiB), "0");
  EXPECT_FALSE(has_nvml(program.pid()));
  daemon_.kill_and_wait();
  rest_ms(60);  // a reading is valid for 50 ms
  const std::uint64_t left = 4096 * kMiB - 100 * kMiB - truth(program.pid()).context_bytes;
  EXPECT_TRUE(does(program, "info").starts_with(std::to_string(left) + " of ")) << left;
  EXPECT_TRUE(has_nvml(program.pid()));
}

// For unloading the driver or resetting a GPU, the daemon must have none of the driver's files open.
TEST_F(NodePage, AReleasedDriverHasNoOpenFileInTheDaemon) {
  const auto open_files = [&] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(daemon_.pid()) + "/fd")) {
      std::error_code gone;
      if (std::filesystem::read_symlink(entry, gone).string().starts_with(node() + "/")) ++count;
    }
    return count;
  };
  EXPECT_GT(open_files(), 0);
  ASSERT_EQ(daemon_.cli().shell("$H gpu release").status, 0);
  EXPECT_EQ(open_files(), 0);
  EXPECT_TRUE(eventually([&] { return daemon_.snapshot().node.nvml_released; }));
  rest_ms(2500);  // snapshots continue with the last known state
  EXPECT_EQ(open_files(), 0);
}

TEST_F(NodePage, AStoppedDaemonIsWaitedForOnce) {
  Program program({BYPASS_PROGRAM, "libcuda.so.1"}, tenant());
  ASSERT_EQ(program.line(), "ready 0") << program.errors();
  ASSERT_EQ(alloc(program, 100 * kMiB), "0");
  daemon_.signal(SIGSTOP);
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(does(program, "info").contains(" of ")) << i;
    rest_ms(30);  // a reading is valid for 50 ms
  }
  // 20 waits of 500 ms would be ten seconds.
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  EXPECT_TRUE(has_nvml(program.pid()));
  daemon_.signal(SIGCONT);
}

}  // namespace
}  // namespace headgate::e2e
