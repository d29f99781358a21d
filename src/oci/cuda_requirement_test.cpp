#include "oci/cuda_requirement.hpp"

#include <gtest/gtest.h>

namespace headgate::oci {
namespace {

const GpuFacts kNode = {.driver = "535.261.03", .cuda = "12.2", .brand = "tesla", .arch = "9.0"};

std::string need(std::vector<std::string> environment, const GpuFacts& facts = kNode) {
  const auto met = check_requirements(environment, facts);
  return met ? "" : met.error().message;
}
std::string need_of(const std::string& requirement) { return need({"NVIDIA_REQUIRE_CUDA=" + requirement}); }

TEST(CudaRequirement, IsReadAsPlainText) {
  EXPECT_EQ(need_of("cuda>=12.4"), "the image needs CUDA 12.4, driver 535.261.03 has 12.2");
  EXPECT_EQ(need_of("cuda>=12.4 brand=geforce,driver>=470,driver<471"),
            "the image needs CUDA 12.4, driver 535.261.03 has 12.2");
  EXPECT_EQ(need_of("driver>=550"), "the image needs driver 550, the node has 535.261.03");
  EXPECT_EQ(need_of("cuda<12"), "the image needs CUDA < 12, driver 535.261.03 has 12.2");
  EXPECT_EQ(need_of("arch>=10.0"), "the image needs compute capability 10.0, the GPU has 9.0");
  EXPECT_EQ(need_of("brand=geforce"), "the image needs a GPU of brand = geforce, this one is tesla");
}

TEST(CudaRequirement, IsMetByOnePartWithAllOfItsConditions) {
  EXPECT_EQ(need_of(""), "");
  EXPECT_EQ(need_of("cuda>=12.2"), "");
  EXPECT_EQ(need_of("cuda>=12.4 brand=tesla,driver>=535,driver<536"), "");
  EXPECT_NE(need_of("cuda>=12.4 brand=tesla,driver>=470,driver<471"), "");
  EXPECT_EQ(need_of("cuda!=12.4"), "");
  EXPECT_EQ(need_of("driver=535.261.03"), "");
  EXPECT_EQ(need({"NVIDIA_REQUIRE_CUDA=cuda>=12", "NVIDIA_REQUIRE_ARCH=arch>=10.0"}),
            "the image needs compute capability 10.0, the GPU has 9.0")
      << "each variable by itself";
  EXPECT_EQ(need({"NVIDIA_REQUIRE_CUDA=cuda>=13", "NVIDIA_REQUIRE_CUDA=cuda>=12"}), "") << "the last entry counts";
}

TEST(CudaRequirement, IsSkippedIfTheImageOrUserSaysSo) {
  EXPECT_EQ(need({"NVIDIA_REQUIRE_CUDA=cuda>=13", "NVIDIA_DISABLE_REQUIRE=1"}), "");
  EXPECT_EQ(need({"NVIDIA_REQUIRE_CUDA=cuda>=13", "NVIDIA_DISABLE_REQUIRE=true"}), "");
  EXPECT_NE(need({"NVIDIA_REQUIRE_CUDA=cuda>=13", "NVIDIA_DISABLE_REQUIRE=0"}), "");
}

TEST(CudaRequirement, RefusesNothingThatTheNodeDoesNotReport) {
  EXPECT_EQ(need({"NVIDIA_REQUIRE_CUDA=cuda>=99,brand=x,driver>=999,arch>=99"}, GpuFacts{}), "");
}

TEST(CudaRequirement, RefusesAnInvalidCondition) {
  for (const char* text :
       {"cuda", "cuda>=", ">=12", "cuda=>12", "cuda>=twelve", "cuda>=12.", "cudnn>=8", "cuda>=99999999999"})
    EXPECT_EQ(need_of(text), "NVIDIA_REQUIRE_CUDA: '" + std::string(text) + "' is no condition");
}

TEST(CudaOfDriver, FollowsTheBranches) {
  EXPECT_EQ(cuda_of_driver("535.261.03"), "12.2");
  EXPECT_EQ(cuda_of_driver("550.163.01"), "12.4");
  EXPECT_EQ(cuda_of_driver("549.9"), "12.3");
  EXPECT_EQ(cuda_of_driver("580.1"), "13.0");
  EXPECT_EQ(cuda_of_driver("615.1"), "") << "newer than the table";
  EXPECT_EQ(cuda_of_driver("390.1"), "") << "older than the table";
  EXPECT_EQ(cuda_of_driver("x"), "");
}

}  // namespace
}  // namespace headgate::oci
