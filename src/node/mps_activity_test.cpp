#include "node/gpu_policies.hpp"

#include <gtest/gtest.h>

namespace headgate::node {
namespace {

using enum MpsActivity::News;
constexpr std::uint64_t kSecond = 1'000'000'000;

TEST(MpsActivity, BeginsAtTheFirstClientAndIsReportedOnce) {
  MpsActivity gpus;
  EXPECT_EQ(gpus.look("a", 0, 1 * kSecond), none);
  EXPECT_EQ(gpus.look("a", 1, 2 * kSecond), began);
  EXPECT_EQ(gpus.look("a", 3, 3 * kSecond), none);
}

TEST(MpsActivity, EndsAfterAWhileWithoutClients) {
  MpsActivity gpus;
  EXPECT_EQ(gpus.look("a", 1, 10 * kSecond), began);
  EXPECT_EQ(gpus.look("a", 0, 10 * kSecond + kMpsGoneNs - 1), none);
  EXPECT_EQ(gpus.look("a", 1, 13 * kSecond), none) << "the next of a row of programs";
  EXPECT_EQ(gpus.look("a", 0, 15 * kSecond), none);
  EXPECT_EQ(gpus.look("a", 0, 13 * kSecond + kMpsGoneNs), ended);
  EXPECT_EQ(gpus.look("a", 0, 30 * kSecond), none);
  EXPECT_EQ(gpus.look("a", 1, 31 * kSecond), began);
}

TEST(MpsActivity, IsSeparateForEachGpu) {
  MpsActivity gpus;
  EXPECT_EQ(gpus.look("a", 1, kSecond), began);
  EXPECT_EQ(gpus.look("b", 0, kSecond), none);
  EXPECT_TRUE(gpus.is_on("a"));
  EXPECT_FALSE(gpus.is_on("b"));
  EXPECT_EQ(gpus.look("b", 1, 2 * kSecond), began);
  EXPECT_EQ(gpus.look("a", 0, 2 * kSecond + kMpsGoneNs), ended);
  EXPECT_EQ(gpus.look("b", 0, 2 * kSecond + kMpsGoneNs - 1), none);
}

}  // namespace
}  // namespace headgate::node
