#include "api/access.hpp"

#include <gtest/gtest.h>

namespace headgate::api {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

int taken(OperationRate& rate, std::uint32_t uid, std::uint64_t now_ns, int tries) {
  int count = 0;
  for (int i = 0; i < tries; ++i) count += rate.take(uid, now_ns) ? 1 : 0;
  return count;
}

TEST(OperationRate, LimitsOneUserAndNoOther) {
  OperationRate rate;
  EXPECT_EQ(taken(rate, 1000, kSecond, 1000), 256);
  EXPECT_EQ(rate.take(1000, kSecond).error().code, ErrorCode::busy);
  EXPECT_EQ(taken(rate, 1001, kSecond, 10), 10);
}

TEST(OperationRate, RecoversWithTime) {
  OperationRate rate;
  taken(rate, 1000, kSecond, 1000);
  EXPECT_EQ(taken(rate, 1000, 2 * kSecond, 100), 16);
  EXPECT_EQ(taken(rate, 1000, 1000 * kSecond, 1000), 256) << "and no further than a burst";
}

// An endless supply of new users leaves no state behind, and does not evict the user that is at its limit.
TEST(OperationRate, ForgetsIdleUsersOnly) {
  OperationRate rate;
  taken(rate, 7, 20 * kSecond, 1000);
  for (std::uint32_t uid = 100; uid < 5000; ++uid) ASSERT_TRUE(rate.take(uid, 20 * kSecond));
  EXPECT_FALSE(rate.take(7, 20 * kSecond));
}

}  // namespace
}  // namespace headgate::api
