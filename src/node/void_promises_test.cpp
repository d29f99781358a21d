#include "node/share_rights.hpp"

#include <gtest/gtest.h>

#include "tenancy/test_shares.hpp"

namespace headgate::node {
namespace {

using schedule::Policy;
using tenancy::kGpu0;
using tenancy::kGpu1;

tenancy::Share share(const std::string& name, std::uint32_t guarantee,
                     tenancy::Class of_class = tenancy::Class::normal) {
  tenancy::Share share = tenancy::share_of(name, 0, tenancy::kGiB, guarantee);
  share.devices[0].priority_class = of_class;
  return share;
}

TEST(VoidPromises, OffVoidsAllAndPriorityThoseOfBestEffort) {
  std::vector shares = {share("a", 500'000), share("b", 300'000, tenancy::Class::best_effort), share("c", 0)};
  shares.push_back(tenancy::share_of("elsewhere", 0, tenancy::kGiB, 400'000, kGpu1));
  const VoidPromise a{"a", kGpu0, 500'000}, b{"b", kGpu0, 300'000};
  EXPECT_EQ(voided_by_policy(shares, kGpu0, Policy::fair, Policy::off), (std::vector{a, b}));
  EXPECT_EQ(voided_by_policy(shares, kGpu0, Policy::fair, Policy::priority), std::vector{b});
  EXPECT_EQ(voided_by_policy(shares, kGpu0, Policy::priority, Policy::off), std::vector{a}) << "b's is void already";
  EXPECT_TRUE(voided_by_policy(shares, kGpu0, Policy::off, Policy::fair).empty());
  EXPECT_TRUE(voided_by_policy(shares, kGpu1, Policy::fair, Policy::off).empty()) << "it is alone there";
  shares[0].overcommit = true;
  EXPECT_EQ(voided_by_policy(shares, kGpu0, Policy::fair, Policy::off), std::vector{b}) << "it was promised nothing";
}

TEST(VoidPromises, BestEffortVoidsAPromiseOnlyUnderPriority) {
  const auto under = [](Policy policy) { return [policy](const std::string&) { return policy; }; };
  const tenancy::Share normal = share("a", 500'000), low = share("a", 500'000, tenancy::Class::best_effort),
                       unpromised = share("a", 0, tenancy::Class::best_effort);
  EXPECT_EQ(voided_by_class(nullptr, low, under(Policy::priority)), (std::vector{VoidPromise{"a", kGpu0, 500'000}}));
  EXPECT_EQ(voided_by_class(&normal, low, under(Policy::priority)).size(), 1u);
  EXPECT_EQ(voided_by_class(&unpromised, low, under(Policy::priority)).size(), 1u);
  EXPECT_TRUE(voided_by_class(&low, low, under(Policy::priority)).empty()) << "it was so before";
  EXPECT_TRUE(voided_by_class(nullptr, normal, under(Policy::priority)).empty());
  EXPECT_TRUE(voided_by_class(nullptr, unpromised, under(Policy::priority)).empty());
  EXPECT_TRUE(voided_by_class(nullptr, low, under(Policy::fair)).empty());
}

TEST(VoidPromises, NeedConsentThatListsThem) {
  EXPECT_TRUE(need_consent("x", {}, false));
  const std::vector<VoidPromise> two = {{"a", kGpu0, 500'000}, {"b", kGpu0, 125'000}};
  EXPECT_TRUE(need_consent("x", two, true));
  const auto refused = need_consent("the policy off", two, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::conflict);
  EXPECT_EQ(refused.error().message,
            "the policy off: this makes promises void: a (50 % of GPU-00000000), b (12.5 % of GPU-00000000)");
  EXPECT_NE(refused.error().hint.find("void_promises"), std::string::npos);
}

}  // namespace
}  // namespace headgate::node
