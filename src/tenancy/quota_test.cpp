#include "tenancy/quota.hpp"

#include <gtest/gtest.h>

#include "tenancy/test_shares.hpp"

namespace headgate::tenancy {
namespace {

Quota everyone() {
  Quota quota;
  quota.subject = Quota::Subject::every_user;
  quota.memory_bytes = 4 * kGiB;
  quota.shares = 2;
  return quota;
}

TEST(Quota, EveryonesLimitsApplyWhereAUsersAreUnset) {
  Quota own;
  own.id = 1000;
  own.memory_bytes = 40 * kGiB;
  const auto held = holding(share_of("a", 1000, kGiB), std::vector{everyone(), own});
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].memory_bytes, 40 * kGiB);
  EXPECT_EQ(held[0].shares, 2u) << "a quota of memory is no leave for any number of shares";
  Quota empty;
  empty.id = 1001;
  const auto of_empty = holding(share_of("a", 1001, kGiB), std::vector{everyone(), empty});
  ASSERT_EQ(of_empty.size(), 1u) << "a quota that says nothing hides nothing";
  EXPECT_EQ(of_empty[0].memory_bytes, 4 * kGiB);
}

TEST(Quota, EachUnsetLimitIsEveryones) {
  Quota all = everyone();
  all.compute_ppm = 500'000;
  all.ttl = std::chrono::hours(8);
  all.weight = 200;
  all.highest_class = Class::normal;
  Quota own;
  own.id = 1000;
  const auto held = holding(share_of("a", 1000, kGiB), std::vector{own, all});
  all.subject = Quota::Subject::user;
  all.id = 1000;
  EXPECT_EQ(held, std::vector{all});
}

TEST(Quota, EveryonesDoesNotLimitRootButRootsOwnDoes) {
  EXPECT_TRUE(holding(share_of("a", 0, kGiB), std::vector{everyone()}).empty());
  Quota own;
  own.shares = 1;
  const auto held = holding(share_of("a", 0, kGiB), std::vector{everyone(), own});
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0], own);
}

}  // namespace
}  // namespace headgate::tenancy
