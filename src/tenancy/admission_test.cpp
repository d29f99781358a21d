#include "tenancy/admission.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/user_name.hpp"
#include "tenancy/test_shares.hpp"

namespace headgate::tenancy {
namespace {

constexpr std::uint64_t kRoom = 128ull << 20;  // as in Reserve

class Admission : public ::testing::Test {
 protected:
  Books books() { return {cards, shares, quotas, reserve, past_limits}; }
  std::string refusal(const Share& share) {
    const auto admitted = admit(share, books());
    return admitted ? "admitted" : admitted.error().message + " | " + admitted.error().hint;
  }

  std::vector<Card> cards{{kGpu0, 80 * kGiB}, {kGpu1, 80 * kGiB}};
  std::vector<Share> shares;
  std::vector<Quota> quotas;
  Reserve reserve;
  std::vector<Excess> past_limits;
};

TEST_F(Admission, TheLastByteThatFitsIsCommittedAndNotOneMore) {
  shares = {share_of("a", 1, 30 * kGiB)};
  const std::uint64_t left = 50 * kGiB - (512ull << 20) - 2 * (128ull << 20);
  EXPECT_EQ(room_on(cards[0], books()).memory_bytes, left);
  EXPECT_EQ(refusal(share_of("b", 1, left)), "admitted");
  EXPECT_EQ(
      refusal(share_of("b", 1, left + 1)),
      "the share 'b' asks for 49.3 GiB (52881784833 bytes) of " + kGpu0 +
          ": the card has 80.0 GiB, 30.0 GiB of it committed to 1 share; 512 MiB are kept for the driver and 128 MiB "
          "for "
          "each share's contexts | the largest that fits is 49.2 GiB (50432 MiB); or an administrator may overcommit "
          "the card: headgate share create NAME --overcommit");
  EXPECT_EQ(admit(share_of("b", 1, left + 1), books()).error().code, ErrorCode::no_capacity);
  EXPECT_EQ(refusal(share_of("b", 1, 60 * kGiB, 0, kGpu1)), "admitted");  // the other card is empty
}

TEST_F(Admission, AShareWithoutALimitTakesTheWholeCard) {
  EXPECT_EQ(refusal(share_of("all", 1, std::nullopt)), "admitted");
  shares = {share_of("all", 1, std::nullopt)};
  EXPECT_NE(refusal(share_of("b", 1, 1)), "admitted");
  EXPECT_NE(refusal(share_of("c", 1, std::nullopt)), "admitted");
  EXPECT_NE(refusal(share_of("b", 1, 1)).find("nothing fits"), std::string::npos);
}

TEST_F(Admission, AShareWithoutALimitNeedsRoomAboveTheReserve) {
  cards[0].memory_total_bytes = reserve.driver_bytes + reserve.context_room_bytes;
  EXPECT_NE(refusal(share_of("all", 1, std::nullopt)).find("nothing fits"), std::string::npos);
  cards[0].memory_total_bytes += 1;
  EXPECT_EQ(refusal(share_of("all", 1, std::nullopt)), "admitted");
}

TEST_F(Admission, GuaranteesNeverExceedTheGpu) {
  shares = {share_of("a", 1, kGiB, 700'000)};
  EXPECT_EQ(refusal(share_of("b", 1, kGiB, 300'000)), "admitted");
  EXPECT_EQ(refusal(share_of("b", 1, kGiB, 300'001)),
            "the share 'b' asks for a guarantee of 30.0001 % of " + kGpu0 +
                ": 70 % are promised to 1 share | the largest that fits is 30 %; or an administrator may overcommit "
                "the card: headgate share create NAME --overcommit");
}

TEST_F(Admission, ARefusedGrowthSuggestsRebalance) {
  shares = {share_of("a", 1, kGiB, 700'000), share_of("b", 1, kGiB, 100'000)};
  EXPECT_EQ(refusal(share_of("b", 1, kGiB, 400'000)),
            "the share 'b' asks for a guarantee of 40 % of " + kGpu0 +
                ": 70 % are promised to 1 share | the largest that fits is 30 %; or lower another share in the same "
                "step: headgate share rebalance b=PART OTHER=PART; or an administrator may overcommit the card: "
                "headgate share create NAME --overcommit");
}

TEST_F(Admission, ALatencyShareCommitsItsCeiling) {
  shares = {share_of("a", 1, kGiB, 700'000)};
  Share fast = share_of("fast", 2, kGiB, 10'000);
  EXPECT_EQ(refusal(fast), "admitted");
  fast.devices[0].priority_class = Class::latency;
  EXPECT_EQ(
      refusal(fast),
      "the share 'fast' asks for 100 % of " + kGpu0 +
          ", its ceiling, which counts as promised because a share of class latency is never kept waiting: 70 % are "
          "promised to 1 share | the largest ceiling that fits is 30 %: --compute and --burst lower it; or take "
          "another class; or an administrator may overcommit the card: headgate share create NAME --overcommit");
  Share beyond = fast;
  beyond.overcommit = true;
  EXPECT_EQ(refusal(beyond), "admitted");
  fast.devices[0].ceiling_ppm = 300'000;
  EXPECT_EQ(refusal(fast), "admitted");
  // No other share is promised what it may take.
  shares = {fast};
  EXPECT_EQ(refusal(share_of("b", 1, kGiB, 700'000)), "admitted");
  EXPECT_NE(refusal(share_of("b", 1, kGiB, 700'001)), "admitted");
  EXPECT_EQ(room_on(cards[0], books()).guarantee_ppm, 700'000u);
  // Beside shares that were promised nothing it may have the whole card.
  shares = {share_of("c", 1, kGiB)};
  fast.devices[0].ceiling_ppm = 1'000'000;
  EXPECT_EQ(refusal(fast), "admitted");
}

TEST_F(Admission, AShareBeyondItsRoomMayChangeAndTakeNoMore) {
  Share fast = share_of("fast", 2, 2 * kGiB);
  fast.devices[0].priority_class = Class::latency;
  shares = {share_of("a", 1, 79 * kGiB, 700'000), fast};
  fast.devices[0].weight = 200;
  EXPECT_EQ(refusal(fast), "admitted");
  fast.devices[0].memory_limit_bytes = 3 * kGiB;
  EXPECT_NE(refusal(fast), "admitted");
  shares[1].devices[0].priority_class = Class::normal;
  fast.devices[0].memory_limit_bytes = 2 * kGiB;
  EXPECT_NE(refusal(fast), "admitted") << "of the class more is committed";
}

TEST_F(Admission, AnOvercommittedShareTakesNothingFromOthers) {
  shares = {share_of("a", 1, 79 * kGiB, 1'000'000)};
  Share more = share_of("b", 1, 80 * kGiB, 1'000'000);
  EXPECT_NE(refusal(more), "admitted");
  more.overcommit = true;
  EXPECT_EQ(refusal(more), "admitted");
  more.devices[0].memory_limit_bytes = 80 * kGiB + 1;
  EXPECT_EQ(admit(more, books()).error().code, ErrorCode::no_capacity);
  shares = {more};
  shares[0].devices[0].memory_limit_bytes = 80 * kGiB;
  EXPECT_EQ(refusal(share_of("c", 1, 79 * kGiB, 1'000'000)), "admitted");
}

TEST_F(Admission, AChangedShareReplacesItselfInTheSum) {
  shares = {share_of("a", 1, 60 * kGiB)};
  EXPECT_EQ(refusal(share_of("a", 1, 70 * kGiB)), "admitted");
}

TEST_F(Admission, AGpuOfAnotherNodeIsRefused) {
  EXPECT_EQ(admit(share_of("a", 1, 1, 0, "GPU-ffffffff-2222-3333-4444-555555555555"), books()).error().code,
            ErrorCode::unreachable);
}

TEST_F(Admission, CommittedMemoryNeverExceedsTheCardLessTheReserve) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    shares.clear();
    for (int i = 0; i < 30; ++i) {
      Share wanted = share_of("s" + std::to_string(random() % 20), 1, 1 + random() % (40 * kGiB),
                              static_cast<std::uint32_t>(random() % 500'000));
      wanted.overcommit = random() % 8 == 0;
      if (!admit(wanted, books())) continue;
      std::erase_if(shares, [&](const Share& share) { return share.name == wanted.name; });
      shares.push_back(wanted);
    }
    std::uint64_t committed = reserve.driver_bytes, guaranteed = 0;
    for (const Share& share : shares) {
      if (share.overcommit) continue;
      committed += *share.devices[0].memory_limit_bytes + reserve.context_room_bytes;
      guaranteed += share.devices[0].guarantee_ppm;
    }
    ASSERT_LE(committed, cards[0].memory_total_bytes);
    ASSERT_LE(guaranteed, 1'000'000u);
  }
}

TEST_F(Admission, AQuotaLimitsAllSharesOfItsUserOnly) {
  Quota quota;
  quota.id = 1000;
  quota.memory_bytes = 20 * kGiB + 2 * kRoom;
  quotas = {quota};
  shares = {share_of("a", 1000, 15 * kGiB), share_of("x", 1001, 30 * kGiB)};
  EXPECT_EQ(refusal(share_of("b", 1000, 5 * kGiB)), "admitted");
  EXPECT_EQ(refusal(share_of("b", 1000, 6 * kGiB, 0, kGpu1)),
            "the share 'b' would take the user " + user_name(1000) +
                " over its quota of GPU memory: 20736 MiB, of which 15488 MiB are taken | at "
                "most 5.0 GiB besides 128 MiB for contexts on each GPU is left; remove or lower a share, or ask an "
                "administrator for a larger quota");
  EXPECT_EQ(refusal(share_of("b", 1001, 6 * kGiB)), "admitted");
  Share sly = share_of("b", 1000, 6 * kGiB);
  sly.overcommit = true;
  EXPECT_EQ(admit(sly, books()).error().code, ErrorCode::denied);
  // The limit was lowered while the programs hold more.
  shares[0] = share_of("a", 1000, kGiB);
  past_limits = {{"a", kGpu0, 14 * kGiB}, {"x", kGpu0, 20 * kGiB}};
  EXPECT_EQ(refusal(share_of("b", 1000, 5 * kGiB, 0, kGpu1)), "admitted");
  EXPECT_TRUE(refusal(share_of("b", 1000, 6 * kGiB, 0, kGpu1)).contains("of which 15488 MiB are taken"));
  EXPECT_EQ(refusal(share_of("a", 1000, 20 * kGiB + kRoom)), "admitted") << "what he holds counts as his limit again";
}

// Each share takes its context room from the card, however small its limit.
TEST_F(Admission, AQuotaOfMemoryCountsWhatSmallSharesTake) {
  Quota quota;
  quota.id = 1000;
  quota.memory_bytes = kGiB;
  quotas = {quota};
  int made = 0;
  while (made < 64) {
    const Share next = share_of("s" + std::to_string(made), 1000, 1 << 20);
    if (refusal(next) != "admitted") break;
    shares.push_back(next);
    ++made;
  }
  EXPECT_EQ(made, 7) << "7 x 129 MiB";
}

TEST_F(Admission, QuotasOfComputeSharesAndTimeNameWhatIsLeft) {
  Quota quota;
  quota.id = 1000;
  quota.compute_ppm = 1'500'000;
  quota.shares = 2;
  quota.ttl = std::chrono::hours(8);
  quotas = {quota};
  Share share = share_of("a", 1000, kGiB);
  EXPECT_NE(refusal(share).find("has no end, and the quota of the user " + user_name(1000) + " allows 8 h 0 min"),
            std::string::npos)
      << refusal(share);
  share.ttl = std::chrono::hours(9);
  EXPECT_NE(refusal(share).find("is to last 9 h 0 min"), std::string::npos);
  share.ttl = std::chrono::hours(8);
  EXPECT_EQ(refusal(share), "admitted");
  shares = {share};
  share.name = "b";
  EXPECT_NE(
      refusal(share).find("compute (ceilings, one GPU being 100 %): 150 %, of which 100 % are taken | at most 50 %"),
      std::string::npos)
      << refusal(share);
  share.devices[0].ceiling_ppm = 500'000;
  EXPECT_EQ(refusal(share), "admitted");
  shares.push_back(share);
  share.name = "c";
  EXPECT_NE(refusal(share).find("quota of shares: 2, of which 2 are taken | at most 0 more"), std::string::npos)
      << refusal(share);
}

TEST_F(Admission, AQuotaLimitsWeightAndClassOfNewShares) {
  Quota quota;
  quota.id = 4000001;
  quota.weight = 200;
  quota.highest_class = Class::normal;
  quotas = {quota};
  Share share = share_of("a", 4000001, kGiB);
  share.devices[0].weight = 200;
  EXPECT_EQ(refusal(share), "admitted");
  share.devices[0].weight = 201;
  EXPECT_EQ(
      refusal(share),
      "the share 'a' asks for a weight of 201, and the quota of the user 4000001 allows 200 | ask for at most that: "
      "--weight 200, or an administrator for a larger quota");
  Share quick = share_of("b", 4000001, kGiB);
  quick.devices[0].priority_class = Class::latency;
  EXPECT_EQ(
      refusal(quick),
      "the share 'b' asks for the class latency, and the quota of the user 4000001 allows normal at most | ask for "
      "that: --class normal, or an administrator for a larger quota");
  shares = {share, quick};
  share.devices[0].memory_limit_bytes = quick.devices[0].memory_limit_bytes = 2 * kGiB;
  EXPECT_EQ(refusal(share), "admitted") << "as it was before the quota";
  EXPECT_EQ(refusal(quick), "admitted") << "as it was before the quota";
  share.devices[0].weight = 202;
  EXPECT_NE(refusal(share).find("weight of 202"), std::string::npos) << refusal(share);
}

TEST_F(Admission, AShareAboveALaterQuotaMayChangeAndTakeNoMore) {
  Quota quota;
  quota.id = 1000;
  quota.memory_bytes = kGiB;
  quota.compute_ppm = 500'000;
  quota.shares = 1;
  quota.ttl = std::chrono::hours(1);
  quotas = {quota};
  Share share = share_of("a", 1000, 4 * kGiB);
  shares = {share, share_of("b", 1000, 4 * kGiB)};
  share.devices[0].weight = 300;
  EXPECT_EQ(refusal(share), "admitted");
  share.devices[0].memory_limit_bytes = 3 * kGiB;
  EXPECT_EQ(refusal(share), "admitted") << "less, if not yet little enough";
  share.devices[0].memory_limit_bytes = 5 * kGiB;
  EXPECT_NE(refusal(share).find("over its quota of GPU memory"), std::string::npos) << refusal(share);
  share = shares[0];
  share.devices[0].ceiling_ppm = 900'000;
  EXPECT_EQ(refusal(share), "admitted") << "less, if not yet little enough";
  shares[0] = share;
  share.devices[0].ceiling_ppm = 900'001;
  EXPECT_NE(refusal(share).find("over its quota of compute"), std::string::npos) << refusal(share);
  share = shares[0];
  share.ttl = std::chrono::hours(2);
  EXPECT_NE(refusal(share).find("is to last 2 h 0 min"), std::string::npos) << refusal(share);
}
TEST_F(Admission, AGroupsQuotaCountsAllItsMembers) {
  Quota group;
  group.subject = Quota::Subject::group;
  group.id = 50;
  group.memory_bytes = 10 * kGiB + 2 * kRoom;
  Quota everybody;
  everybody.subject = Quota::Subject::every_user;
  everybody.memory_bytes = 4 * kGiB + kRoom;
  Quota own;
  own.id = 1002;
  own.memory_bytes = 40 * kGiB;
  quotas = {group, everybody, own};
  Share first = share_of("a", 1000, 4 * kGiB);
  first.owner_gids = {50};
  EXPECT_EQ(refusal(first), "admitted");
  shares = {first};
  Share second = share_of("b", 1002, 7 * kGiB);
  second.owner_gids = {7, 50};
  EXPECT_NE(refusal(second).find("the group 50"), std::string::npos) << refusal(second);
  second.owner_gids = {7};
  EXPECT_EQ(refusal(second), "admitted");
  EXPECT_NE(refusal(share_of("c", 1003, 5 * kGiB)).find("the user " + user_name(1003)), std::string::npos);
  EXPECT_EQ(refusal(share_of("c", 1003, 4 * kGiB)), "admitted");
}

}  // namespace
}  // namespace headgate::tenancy
