#include "cli/run/engine_run.hpp"

#include <gtest/gtest.h>

namespace headgate::cli {
namespace {

using Words = std::vector<std::string>;

TEST(EngineLine, PutsTheSharesDeviceInItsPlace) {
  const Words wanted = {"podman", "run", "--rm",  "--device", "headgate.io/share=a",
                        "-e",     "A=b", "image", "--share",  "x"};
  for (const Words& share : {Words{"--share", "a"}, Words{"--share=a"}}) {
    Words words = {"run", "--rm"};
    words.insert(words.end(), share.begin(), share.end());
    words.insert(words.end(), {"-e", "A=b", "image", "--share", "x"});
    const auto line = engine_line("podman", words);
    ASSERT_TRUE(line) << line.error().message;
    EXPECT_EQ(line->words, wanted);
    EXPECT_EQ(line->share, "a");
  }
}

TEST(EngineLine, IsRefusedWithoutAShare) {
  const auto trouble = [](const Words& words) {
    const auto line = engine_line("docker", words);
    return line ? "" : line.error().message;
  };
  EXPECT_EQ(trouble({}), "headgate docker takes 'run' alone");
  EXPECT_EQ(trouble({"ps"}), "headgate docker takes 'run' alone");
  EXPECT_EQ(trouble({"run", "image"}), "no share is named");
  EXPECT_EQ(trouble({"run", "--share"}), "--share has no value");
  EXPECT_EQ(trouble({"run", "--share", "../a", "image"}), "--share '../a' is no name that containers can be given");
}

}  // namespace
}  // namespace headgate::cli
