#include "node/arbitrated_share.hpp"

#include <gtest/gtest.h>

namespace headgate::node {
namespace {

constexpr std::int64_t kMilli = 1'000'000;

// Turns of 5 ms, all marked by the share while its account grows by `grows(turn)`: returns how many are believed.
template <typename Grows>
int believed(int turns, Grows grows) {
  ReportCheck check;
  int count = 0;
  std::int64_t held_ns = 77'000 * kMilli;
  for (int turn = 0; turn < turns; ++turn) {
    held_ns += grows(turn);
    count += check.holds(5 * kMilli, held_ns, (1'000 + 10 * turn) * kMilli) ? 1 : 0;
  }
  return count;
}

TEST(ReportCheck, MarksThatTheAccountSupportsAreAccepted) {
  EXPECT_EQ(believed(2'000, [](int) { return 5 * kMilli; }), 2'000);
  EXPECT_EQ(believed(2'000, [](int) { return 2 * kMilli; }), 2'000) << "the rest came back to it";
  EXPECT_EQ(believed(2'000, [](int turn) { return turn % 4 == 3 ? 20 * kMilli : 0; }), 2'000) << "charged late";
}

TEST(ReportCheck, MarksWithoutAChargeAreAcceptedFor100Ms) {
  EXPECT_LE(believed(2'000, [](int) { return 0; }), 20);
}

TEST(ReportCheck, AnAccountThatJumpsBackAndForthSupportsNothing) {
  EXPECT_LE(believed(2'000, [](int turn) { return (turn % 2 == 0 ? 1 : -1) * 5'000 * kMilli; }), 40);
  EXPECT_LE(believed(2'000, [](int turn) { return (turn % 2 == 0 ? 1 : -1) * (INT64_MAX / 2); }), 40);
}

}  // namespace
}  // namespace headgate::node
