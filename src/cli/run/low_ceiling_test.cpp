#include "cli/run/run_daemon.hpp"

#include <gtest/gtest.h>

namespace headgate::cli {
namespace {

TEST(LowCeiling, ReportsHowLongLaunchesWillWait) {
  EXPECT_EQ(low_ceiling_remark({0.04}),
            "a compute limit of 4 % is low: after a kernel of 10 ms the next launch waits 240.0 ms, after longer ones "
            "longer");
  EXPECT_EQ(
      low_ceiling_remark({1, 0.005}),
      "a compute limit of 0.5 % is low: after a kernel of 10 ms the next launch waits 2.0 s, after longer ones longer");
}

TEST(LowCeiling, StaysSilentForUsableLimits) {
  EXPECT_EQ(low_ceiling_remark({}), std::nullopt);
  EXPECT_EQ(low_ceiling_remark({0.05}), std::nullopt);
  EXPECT_EQ(low_ceiling_remark({1, 0.5}), std::nullopt);
}

}  // namespace
}  // namespace headgate::cli
