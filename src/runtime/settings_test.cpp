#include "runtime/settings.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace headgate::runtime {
namespace {

class RuntimeSettings : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(directory_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  [[nodiscard]] Settings of(const std::string& text) const {
    std::ofstream(directory_ + "/c.toml") << text;
    return read_settings(directory_ + "/c.toml");
  }

  std::string directory_ = (std::filesystem::temp_directory_path() / "headgate-settings-XXXXXX").string();
};

TEST_F(RuntimeSettings, HaveDefaults) {
  const Settings settings = of("");
  EXPECT_EQ(settings.program, "");
  EXPECT_EQ(settings.cdi_directory, "/var/run/cdi");
  EXPECT_FALSE(settings.rules.from_environment);
  EXPECT_EQ(settings.rules.gpu_without_share, "pass");
  EXPECT_EQ(settings.image, ImagePolicy::refuse);
  EXPECT_EQ(settings.problem, "");
}

TEST_F(RuntimeSettings, AreReadFromTheFile) {
  const Settings settings =
      of("[cdi]\ndir = '/x'\n[runtime]\nenv = true\nimage = 'mps'\ngpu_without_share = 'rest'\n"
         "program = '/usr/bin/nvidia-container-runtime'\n");
  EXPECT_EQ(settings.problem, "");
  EXPECT_EQ(settings.cdi_directory, "/x");
  EXPECT_TRUE(settings.rules.from_environment);
  EXPECT_TRUE(settings.rules.next_is_nvidias);
  EXPECT_EQ(settings.rules.gpu_without_share, "rest");
  EXPECT_EQ(settings.image, ImagePolicy::mps);
}

TEST_F(RuntimeSettings, NameMistakesOfTheFile) {
  EXPECT_TRUE(of("[runtime]\nenv = 1\n").problem.contains("runtime.env = 1 is not understood"));
  EXPECT_TRUE(of("[runtime]\nimage = 'allow'\n").problem.contains("runtime.image"));
  EXPECT_NE(read_settings(directory_ + "/absent.toml").problem, "");
}

}  // namespace
}  // namespace headgate::runtime
