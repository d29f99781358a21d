#include "tenancy/share.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tenancy/test_shares.hpp"

namespace headgate::tenancy {
namespace {

TEST(Access, OnlyTheOwnerAndListedUsersMayEnter) {
  Share share = share_of("s", 1000, kGiB);
  EXPECT_TRUE(may_enter(share, {.uid = 1000}));
  EXPECT_FALSE(may_enter(share, {.uid = 0}));
  EXPECT_EQ(may_enter(share, {.uid = 1001}).error().message, "uid 1001 may not use the share 's'");
  share.users = {1001};
  share.groups = {50};
  EXPECT_TRUE(may_enter(share, {.uid = 1001}));
  EXPECT_TRUE(may_enter(share, {.uid = 7, .gid = 50}));
  const std::vector<std::uint32_t> groups = {4, 50};
  EXPECT_TRUE(may_enter(share, {.uid = 7, .gid = 7, .groups = groups}));
  EXPECT_FALSE(may_enter(share, {.uid = 7, .gid = 7, .groups = std::span(groups).first(1)}));
  share.everyone = true;
  EXPECT_TRUE(may_enter(share, {.uid = 0}));
}

TEST(Access, AUserOfARootlessContainerIsItsMaker) {
  const Share share = share_of("s", 1000, kGiB);
  EXPECT_TRUE(may_enter(share, {.uid = 100033, .user_namespace_owner = 1000}));
  EXPECT_EQ(may_enter(share, {.uid = 100033, .user_namespace_owner = 1001}).error().message,
            "uid 100033, in a user namespace of uid 1001, may not use the share 's'");
}

}  // namespace
}  // namespace headgate::tenancy
