#include "tenancy/admission.hpp"

#include <gtest/gtest.h>

#include "tenancy/test_shares.hpp"

namespace headgate::tenancy {
namespace {

const std::vector<Card> kCards = {{kGpu0, 80 * kGiB}, {kGpu1, 80 * kGiB}};
const Reserve kReserve;

std::vector<Committed> committed(const std::vector<Share>& shares) {
  return committed_of({kCards, shares, {}, kReserve});
}

TEST(Shortfall, IsWhatAdmissionLacksAndEmptyIfItFits) {
  const std::vector<Share> there = {share_of("a", 1, 60 * kGiB, 700'000)};
  const Room room = room_on(kCards[0], {kCards, there, {}, kReserve});
  for (const std::uint64_t less : {0ull, 1ull}) {
    const Share fits = share_of("b", 1, room.memory_bytes - less, room.guarantee_ppm);
    EXPECT_TRUE(admit(fits, {kCards, there, {}, kReserve}));
    EXPECT_TRUE(shortfall(fits, kCards, kReserve, committed(there)).empty());
  }
  const Share large = share_of("b", 1, room.memory_bytes + 5, room.guarantee_ppm + 7);
  EXPECT_FALSE(admit(large, {kCards, there, {}, kReserve}));
  EXPECT_EQ(shortfall(large, kCards, kReserve, committed(there)), (std::vector<Shortfall>{{kGpu0, kGpu0, 5, 7}}));
  Share promised_nothing = large;
  promised_nothing.overcommit = true;
  EXPECT_TRUE(shortfall(promised_nothing, kCards, kReserve, committed(there)).empty());
  Share fast = share_of("fast", 1, kGiB, 10'000);
  fast.devices[0].priority_class = Class::latency;
  EXPECT_EQ(shortfall(fast, kCards, kReserve, committed(there)), (std::vector<Shortfall>{{kGpu0, kGpu0, 0, 700'000}}));
  EXPECT_EQ(shortfall(share_of("b", 1, std::nullopt), kCards, kReserve, committed({})), std::vector<Shortfall>{});
}

TEST(Shortfall, CountsTheShareAsTheBooksDo) {
  std::vector<Share> both = {share_of("a", 1, 8 * kGiB, 100'000), share_of("b", 1, std::nullopt, 0, kGpu1)};
  both[0].devices[0].priority_class = Class::latency;
  std::vector<Committed> now = committed({});
  for (const Share& share : both) commit(share, kCards, kReserve, now);
  EXPECT_EQ(now, committed(both));
}

TEST(Shortfall, OvertakesOnlyIfItTakesFromAnEarlierRequest) {
  const std::vector<Share> there = {share_of("a", 1, 60 * kGiB, 700'000)};
  const auto now = committed(there);
  const auto overtaken = [&](const Share& later, const Share& earlier) {
    return overtakes(later, earlier, kCards, kReserve, now);
  };
  const Share for_memory = share_of("m", 1, 40 * kGiB);
  EXPECT_TRUE(overtaken(share_of("small", 1, kGiB), for_memory));
  EXPECT_FALSE(overtaken(share_of("small", 1, kGiB, 0, kGpu1), for_memory)) << "another GPU's";
  const Share for_time = share_of("t", 1, kGiB, 500'000);
  EXPECT_TRUE(overtaken(share_of("small", 1, kGiB, 1), for_time));
  EXPECT_FALSE(overtaken(share_of("small", 1, kGiB), for_time)) << "there is memory for both";
  EXPECT_TRUE(overtaken(share_of("large", 1, 19 * kGiB), for_time)) << "and here there is not";
  Share both = share_of("both", 1, kGiB, 0, kGpu1);
  both.devices.push_back(share_of("x", 1, kGiB).devices[0]);
  EXPECT_TRUE(overtaken(both, for_memory));
}

}  // namespace
}  // namespace headgate::tenancy
