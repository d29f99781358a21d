#include "node/share_rights.hpp"

#include <gtest/gtest.h>

namespace headgate::node {
namespace {

using tenancy::Isolation;

tenancy::Share share_on(const char* name, const char* gpu, Isolation isolation, std::uint32_t owner = 1000) {
  tenancy::Share share;
  share.name = name;
  share.owner_uid = owner;
  share.devices.push_back({.uuid = gpu});
  share.isolation = isolation;
  return share;
}

TEST(MpsExclusion, RefusesAMixOfKindsOnOneGpu) {
  const auto mps = share_on("m", "GPU-0", Isolation::mps), hook = share_on("h", "GPU-0", Isolation::hook);
  EXPECT_EQ(fits_beside(mps, {hook}).error().code, ErrorCode::conflict);
  EXPECT_EQ(fits_beside(hook, {mps}).error().code, ErrorCode::conflict);
  EXPECT_NE(fits_beside(hook, {mps}).error().message.find("'m'"), std::string::npos);
  EXPECT_TRUE(fits_beside(mps, {share_on("h", "GPU-1", Isolation::hook)}));
  EXPECT_TRUE(fits_beside(hook, {share_on("k", "GPU-0", Isolation::hook, 1001)})) << "without MPS all fit";
  EXPECT_TRUE(fits_beside(mps, {mps})) << "itself, as it was";
}

TEST(MpsExclusion, TakesAllOwnersWhereOneServerServesThem) {
  const auto mps = share_on("m", "GPU-0", Isolation::mps), other = share_on("n", "GPU-0", Isolation::mps, 1001);
  EXPECT_TRUE(fits_beside(mps, {other}, {"GPU-0"}));
  EXPECT_FALSE(fits_beside(mps, {other}, {"GPU-1"}));
  EXPECT_FALSE(fits_beside(mps, {share_on("h", "GPU-0", Isolation::hook, 1001)}, {"GPU-0"})) << "another kind";
}

TEST(MpsExclusion, RefusesTwoOwnersOnOneGpu) {
  const auto mps = share_on("m", "GPU-0", Isolation::mps);
  EXPECT_TRUE(fits_beside(mps, {share_on("n", "GPU-0", Isolation::mps)}));
  const auto refused = fits_beside(mps, {share_on("secret", "GPU-0", Isolation::mps, 1001)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message.find("secret"), std::string::npos) << "another user's share is not named";
}

}  // namespace
}  // namespace headgate::node
