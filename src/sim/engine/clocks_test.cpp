#include "sim/engine/clocks.hpp"

#include <gtest/gtest.h>

namespace headgate::sim {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

TEST(Energy, IsPowerTimesTime) {
  const Profile& profile = *find_profile("l40s-x2");  // idle 34 W, default 350 W
  NvmlDevice set{};
  EXPECT_EQ(drawn_mj(profile, set, 350'000, 0, 10 * kSecond), 340'000u) << "idle for 10 s";
  EXPECT_EQ(drawn_mj(profile, set, 350'000, 10 * kSecond, 10 * kSecond), 3'500'000u) << "busy for 10 s";
  settle_energy(profile, set, 350'000, 10 * kSecond, 10 * kSecond);
  EXPECT_EQ(drawn_mj(profile, set, 200'000, 10 * kSecond, 10 * kSecond), 3'500'000u)
      << "a new limit changes nothing of before";
  EXPECT_EQ(drawn_mj(profile, set, 200'000, 15 * kSecond, 15 * kSecond), 4'500'000u) << "5 s more at 200 W";
  settle_energy(profile, set, 200'000, 15 * kSecond, 15 * kSecond);
  EXPECT_EQ(drawn_mj(profile, set, 350'000, 15 * kSecond, 25 * kSecond), 4'840'000u) << "and 10 s idle";
}

TEST(Energy, ALimitBelowTheIdlePowerSavesNothing) {
  const Profile& profile = *find_profile("l40s-x2");
  EXPECT_EQ(drawn_mj(profile, NvmlDevice{}, 10'000, kSecond, kSecond), 34'000u);
}

}  // namespace
}  // namespace headgate::sim
