#include "cli/run/engine_run.hpp"

#include <gtest/gtest.h>

namespace headgate::cli {
namespace {

using Words = std::vector<std::string>;

TEST(EngineLine, ReplacesTheShareOptionByItsDevice) {
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

TEST(EngineLine, ReplacesACountOfGpusInPlace) {
  for (const Words& gpus : {Words{"--gpus", "2"}, Words{"--gpus=2"}}) {
    Words words = {"run", "--rm"};
    words.insert(words.end(), gpus.begin(), gpus.end());
    words.insert(words.end(), {"image", "--gpus", "3", "--share", "x"});
    const auto line = engine_line("docker", words);
    ASSERT_TRUE(line) << line.error().message;
    EXPECT_EQ(*line, (EngineLine{.share = {},
                                 .gpus = 2,
                                 .gpus_place = 3,
                                 .words = {"docker", "run", "--rm", "image", "--gpus", "3", "--share", "x"}}));
  }
  EXPECT_EQ(gpu_words("docker", {"GPU-1", "GPU-2"}), (Words{"--gpus", "\"device=GPU-1,GPU-2\""}));
  EXPECT_EQ(gpu_words("podman", {"GPU-1", "GPU-2"}),
            (Words{"--device", "nvidia.com/gpu=GPU-1", "--device", "nvidia.com/gpu=GPU-2"}));
  for (const char* value : {"all", "0", "-1", "1.5", "device=0", ""})
    EXPECT_FALSE(engine_line("docker", {"run", "--gpus", value, "image"})) << value;
}

TEST(EngineLine, IsRefusedWithoutAShare) {
  const auto trouble = [](const Words& words) {
    const auto line = engine_line("docker", words);
    return line ? "" : line.error().message;
  };
  EXPECT_EQ(trouble({}), "headgate docker takes 'run' alone");
  EXPECT_EQ(trouble({"ps"}), "headgate docker takes 'run' alone");
  EXPECT_EQ(trouble({"run", "image"}), "neither a share nor a count of GPUs is named");
  EXPECT_EQ(trouble({"run", "--share"}), "--share has no value");
  EXPECT_EQ(trouble({"run", "--share", "../a", "image"}), "--share '../a' is no name that containers can be given");
}

}  // namespace
}  // namespace headgate::cli
