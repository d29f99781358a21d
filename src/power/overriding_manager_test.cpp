#include "power/overriding_manager.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "power/test_recording_manager.hpp"

namespace headgate::power {
namespace {

constexpr std::chrono::seconds kLong{60};

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Folder {
 public:
  Folder() {
    std::string pattern = "/tmp/headgate-commands-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

Result<void> shell(const std::string& line, const std::optional<std::string>& pattern = {},
                   std::chrono::milliseconds timeout = kLong) {
  return run_command({"sh", "-c", line}, pattern, timeout);
}

TEST(RunCommand, StatusPatternAndOutputDecide) {
  EXPECT_TRUE(shell("exit 0"));
  EXPECT_EQ(shell("echo no such GPU >&2; exit 3").error().message, "command 'sh' ended with status 3: no such GPU?");
  EXPECT_EQ(shell("kill -9 $$").error().message, "command 'sh' ended by signal 9");
  EXPECT_TRUE(shell("echo all good", "[Ff]ailed"));
  EXPECT_NE(shell("echo it Failed; exit 0", "[Ff]ailed").error().message.find("error_pattern"), std::string::npos);
  EXPECT_FALSE(run_command({"/nothing/of/that/name"}, {}, kLong));
}

TEST(RunCommand, OutputWithoutEndDoesNotFillMemoryOrBlock) { EXPECT_TRUE(shell("head -c 3000000 /dev/zero")); }

TEST(RunCommand, ACommandThatHangsIsKilledWithAllItStarted) {
  const Folder folder;
  const auto run = shell("sleep 600 & echo $! > " + (folder / "pid") + "; wait", {}, std::chrono::milliseconds(300));
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().message, "command 'sh' was killed after 300 ms");
  const pid_t child = std::atoi(text_of(folder / "pid").c_str());
  ASSERT_GT(child, 0);
  // It is gone, or a zombie that its new parent has not reaped.
  for (;;) {
    const std::string state = text_of("/proc/" + std::to_string(child) + "/stat");
    if (state.empty() || state.contains(") Z")) break;
    std::this_thread::yield();
  }
}

TEST(RunCommand, AChildThatKeepsThePipeOpenIsNotWaitedFor) {
  const Folder folder;
  EXPECT_TRUE(shell("sleep 600 & echo $! > " + (folder / "pid")));
  ::kill(std::atoi(text_of(folder / "pid").c_str()), SIGKILL);
}

TEST(OverridingManager, RunsCommandsInOrderUntilAFailure) {
  const Folder folder;
  Recording recording;
  config::CommandOverrides overrides;
  overrides["set_power_limit"].commands = {
      {"sh", "-c", "echo $0 $1 $2 >> " + (folder / "log"), "{gpu_id}", "{power_limit_mw}", "{power_limit_w}"},
      {"false"},
      {"sh", "-c", "echo never >> " + (folder / "log")}};
  auto gpu = overriding_manager(std::make_unique<RecordingManager>(recording), 3, overrides);
  EXPECT_EQ(gpu->perform({.operation = Operation::set_power_limit, .power_limit_mw = 150'500}).error().message,
            "command 'false' ended with status 1");
  EXPECT_EQ(text_of(folder / "log"), "3 150500 150.5\n");
  EXPECT_TRUE(recording.written().empty()) << "the driver is not asked";
  EXPECT_TRUE(gpu->perform({.operation = Operation::set_persistence_mode, .enabled = true}))
      << "no command for it: the driver is";
  EXPECT_EQ(recording.written().size(), 1u);
}

TEST(OverridingManager, ResetOfBothClocksUsesTheCommandsOfEach) {
  const Folder folder;
  Recording recording;
  config::CommandOverrides overrides;
  overrides["reset_gpu_locked_clocks"].commands = {{"sh", "-c", "echo gpu >> " + (folder / "log")}};
  auto gpu = overriding_manager(std::make_unique<RecordingManager>(recording), 0, overrides);
  EXPECT_TRUE(gpu->perform({.operation = Operation::reset_locked_clocks}));
  EXPECT_EQ(text_of(folder / "log"), "gpu\n");
  EXPECT_EQ(recording.written(), std::vector<Command>{{.operation = Operation::reset_mem_locked_clocks}});
  overrides["reset_locked_clocks"].commands = {{"sh", "-c", "echo both >> " + (folder / "log")}};
  auto both = overriding_manager(std::make_unique<RecordingManager>(recording), 0, overrides);
  EXPECT_TRUE(both->perform({.operation = Operation::reset_locked_clocks}));
  EXPECT_EQ(text_of(folder / "log"), "gpu\nboth\n");
}

TEST(OverridingManager, FillsEachPlaceholder) {
  const std::vector<std::string> words = {"{gpu_id}:{enabled}", "{min_clock_mhz}-{max_clock_mhz}"};
  EXPECT_EQ(filled(words, 2, {.enabled = true, .clocks = {210, 900}}), (std::vector<std::string>{"2:1", "210-900"}));
}

}  // namespace
}  // namespace headgate::power
