#include "observe/lost_gpus.hpp"

#include <gtest/gtest.h>

namespace headgate::observe {
namespace {

snapshot::Gpu gpu(std::uint32_t index, const std::string& uuid, const std::string& model) {
  snapshot::Gpu one;
  one.index = index;
  one.uuid = uuid;
  one.model = model;
  return one;
}

const std::string kGone = "does not answer: GPU is lost";

TEST(LostGpus, LossAndReturnAreReportedOnceEach) {
  LostGpus lost;
  const auto first = gpu(0, "GPU-a", "NVIDIA H200");
  EXPECT_TRUE(lost.look({first, gpu(1, "GPU-b", "NVIDIA H200")}).empty());
  const auto went = lost.look({first, gpu(1, "", kGone)});
  ASSERT_EQ(went.size(), 1u);
  EXPECT_EQ(went[0].kind, "gpu.lost");
  EXPECT_EQ(went[0].severity, "error");
  EXPECT_EQ(went[0].uuid, "GPU-b");
  EXPECT_EQ(went[0].text,
            "GPU 1 (GPU-b) does not answer: GPU is lost: programs on it fail, and shares find no GPU there");
  EXPECT_TRUE(lost.look({first, gpu(1, "", kGone)}).empty());
  const auto back = lost.look({first, gpu(1, "GPU-b", "NVIDIA H200")});
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].kind, "gpu.found");
  EXPECT_EQ(back[0].severity, "info");
  EXPECT_EQ(back[0].text, "GPU 1 (GPU-b) answers again");
}

// The driver renumbers the others.
TEST(LostGpus, AGpuThatTheDriverNoLongerListsIsReported) {
  LostGpus lost;
  EXPECT_TRUE(lost.look({gpu(0, "GPU-a", "NVIDIA H200"), gpu(1, "GPU-b", "NVIDIA H200")}).empty());
  const auto went = lost.look({gpu(0, "GPU-b", "NVIDIA H200")});
  ASSERT_EQ(went.size(), 1u);
  EXPECT_EQ(went[0].kind, "gpu.lost");
  EXPECT_EQ(went[0].text,
            "GPU 0 (GPU-a) is no longer listed by the driver: programs on it fail, and shares find no GPU there");
  EXPECT_TRUE(lost.look({gpu(0, "GPU-b", "NVIDIA H200")}).empty());
  const auto back = lost.look({gpu(0, "GPU-a", "NVIDIA H200"), gpu(1, "GPU-b", "NVIDIA H200")});
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].text, "GPU 0 (GPU-a) answers again");
}

TEST(LostGpus, AGpuThatCameAfterTheDaemonIsReported) {
  LostGpus lost;
  EXPECT_TRUE(lost.look({gpu(0, "GPU-a", "NVIDIA H200")}).empty());
  const auto came = lost.look({gpu(0, "GPU-a", "NVIDIA H200"), gpu(1, "GPU-b", "NVIDIA H200")});
  ASSERT_EQ(came.size(), 1u);
  EXPECT_EQ(came[0].severity, "warn");
  EXPECT_TRUE(came[0].text.starts_with("GPU 1 (GPU-b) is new since headgated started: it is not committed"));
}

TEST(LostGpus, AGpuThatWasGoneBeforeTheDaemonIsReported) {
  LostGpus lost;
  const auto told = lost.look({gpu(0, "", kGone)});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].uuid, "");
  EXPECT_TRUE(told[0].text.starts_with("GPU 0 does not answer: ")) << told[0].text;
  const auto came = lost.look({gpu(0, "GPU-a", "NVIDIA H200")});
  ASSERT_EQ(came.size(), 1u);
  EXPECT_EQ(came[0].severity, "warn") << "an administrator has to restart the daemon";
  EXPECT_TRUE(
      came[0].text.starts_with("GPU 0 (GPU-a) answers now, but did not when headgated started: it is not committed"))
      << came[0].text;
}

}  // namespace
}  // namespace headgate::observe
