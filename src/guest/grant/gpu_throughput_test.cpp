#include "guest/grant/gpu_throughput.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace headgate {
namespace {

TEST(GpuThroughput, ACardMatchesByWholeNameAndCustomRowsFirst) {
  EXPECT_EQ(fp16_tflops("NVIDIA A100-SXM4-80GB"), 312);
  EXPECT_EQ(fp16_tflops("NVIDIA L40S"), 362);
  EXPECT_EQ(fp16_tflops("NVIDIA A2"), 18);
  EXPECT_EQ(fp16_tflops("NVIDIA A20"), std::nullopt);
  const std::vector<std::pair<std::string, double>> own = {{"A20", 61.5}, {"L40S", 181}};
  EXPECT_EQ(fp16_tflops("NVIDIA A20", own), 61.5);
  EXPECT_EQ(fp16_tflops("NVIDIA L40S", own), 181);
  EXPECT_EQ(fp16_tflops("NVIDIA A2", own), 18);
}

TEST(GpuThroughput, FlopsAreReadInGigaTeraAndPeta) {
  EXPECT_EQ(parse_tflops("40TFLOPS"), 40);
  EXPECT_EQ(parse_tflops("900GFLOPS"), 0.9);
  EXPECT_EQ(parse_tflops("1.5PFLOPS"), 1500);
  EXPECT_EQ(parse_tflops("40tflops"), 40);
  EXPECT_EQ(parse_tflops("12.5TFlops"), 12.5);
  for (const char* text : {"", "FLOPS", "TFLOPS", "40FLOPS", "40 TFLOPS", "-1TFLOPS", "0TFLOPS", "40 tflops",
                           "1.2.3TFLOPS", ".TFLOPS", "4xTFLOPS", "nanTFLOPS"})
    EXPECT_EQ(parse_tflops(text), std::nullopt) << text;
}

}  // namespace
}  // namespace headgate
