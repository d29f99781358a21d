#include "config/command_overrides.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace headgate::config {
namespace {

std::string refusal_of(const std::string& text) {
  const auto parsed = parse_command_overrides(text, "o.toml");
  return parsed ? "" : parsed.error().message + " | " + parsed.error().hint;
}

TEST(CommandOverrides, ArgumentsPatternAndTimeoutAreRead) {
  const auto parsed = parse_command_overrides(
      "[set_power_limit]\ncommands = ['nvidia-smi -i {gpu_id}  -pl {power_limit_w}', 'true']\nerror_pattern = "
      "'[Ff]ailed|denied'\ntimeout_s = 3\n[reset_locked_clocks]\ncommands = ['smi -i {gpu_id} -rgc']\n",
      "o.toml");
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->size(), 2u);
  const CommandOverride& limit = parsed->at("set_power_limit");
  EXPECT_EQ(limit.commands, (std::vector<std::vector<std::string>>{
                                {"nvidia-smi", "-i", "{gpu_id}", "-pl", "{power_limit_w}"}, {"true"}}));
  EXPECT_EQ(limit.error_pattern, "[Ff]ailed|denied");
  EXPECT_EQ(limit.timeout, std::chrono::seconds(3));
  EXPECT_EQ(parsed->at("reset_locked_clocks").timeout, std::chrono::seconds(60));
  EXPECT_TRUE(parse_command_overrides("", "o.toml")->empty());
}

TEST(CommandOverrides, MistakesAreRefusedWithTheirPlace) {
  const std::pair<const char*, const char*> bad[] = {
      {"[set_power_limit]\ncommands = []", "o.toml:2: [set_power_limit] commands is no list"},
      {"[set_power_limit]\ncommands = ['  ']", "a command that is no text"},
      {"[set_power_limit]\ncommands = [1]", "a command that is no text"},
      {"[set_power_limit]\ncommands = ['x {watts}']", "unknown placeholder {watts} | accepted: {gpu_id}"},
      {"[set_persistence_mode]\ncommands = ['x {power_limit_w}']", "unknown placeholder {power_limit_w}"},
      {"[set_power_limit]\ncommands = ['x {gpu_id']", "unknown placeholder"},
      {"[set_power_limit]\ntimeout_s = 0\ncommands = ['x']", "timeout_s is no number of seconds"},
      {"[set_power_limit]\ntimeout_s = '5'\ncommands = ['x']", "timeout_s"},
      {"[set_power_limit]\nerror_pattern = '('\ncommands = ['x']", "error_pattern is no regular expression"},
      {"[set_power_limit]\n", "has no commands"},
      {"[set_power_limit]\nshell = 'x'\n", "unknown key shell"},
      {"[get_power]\ncommands = ['x']", "is no table of an operation"},
      {"set_power_limit = 1", "is no table of an operation"},
      {"[", "o.toml:1: "},
  };
  for (const auto& [text, words] : bad) EXPECT_NE(refusal_of(text).find(words), std::string::npos) << refusal_of(text);
}

TEST(CommandOverrides, OnlyATrustedFileIsRead) {
  std::string folder = "/tmp/headgate-overrides-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/o.toml";
  std::ofstream(path) << "[reset_locked_clocks]\ncommands = ['true']\n";
  ::chmod(path.c_str(), 0644);
  const auto loaded = load_command_overrides(path);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->warning, "");
  ::chmod(path.c_str(), 0664);
  EXPECT_NE(load_command_overrides(path)->warning, "");
  ::chmod(path.c_str(), 0666);
  EXPECT_EQ(load_command_overrides(path).error().code, ErrorCode::denied);
  EXPECT_FALSE(load_command_overrides(folder));
  EXPECT_FALSE(load_command_overrides(path + ".missing"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace headgate::config
