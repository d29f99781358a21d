#include "demo/tenants.hpp"

#include <gtest/gtest.h>

namespace headgate::demo {
namespace {

Verdict of(double asked, double got, double absent) {
  return judge({.asked_percent = asked, .got_percent = got, .allowed_points = 1, .absent_percent = absent});
}

TEST(BenchVerdict, WithinTheToleranceIsKept) {
  EXPECT_EQ(of(75, 74.1, 0), Verdict::kept);
  EXPECT_EQ(of(75, 75.9, 0), Verdict::kept);
  EXPECT_EQ(of(75, 75, 90), Verdict::kept) << "however busy the machine was";
}

TEST(BenchVerdict, TooLittleForAnActiveProgramIsTheGatesFault) {
  EXPECT_EQ(of(75, 67.5, 0), Verdict::not_kept);
  EXPECT_EQ(of(75, 67.5, 3), Verdict::not_kept) << "its absence explains less than what is lacking";
}

TEST(BenchVerdict, TooLittleForAProgramWithoutCpuIsNoVerdict) { EXPECT_EQ(of(75, 67.5, 12), Verdict::could_not_ask); }

TEST(BenchVerdict, TooMuchIsTheGatesFaultOnAnyMachine) { EXPECT_EQ(of(75, 80, 50), Verdict::not_kept); }

}  // namespace
}  // namespace headgate::demo
