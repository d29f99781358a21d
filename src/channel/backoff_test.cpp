#include "channel/test_agent.hpp"

#include <gtest/gtest.h>

namespace headgate::channel {
namespace {

using std::chrono::milliseconds;

TEST(Backoff, DoublesUpToItsMaximumAndResetsAfterASuccess) {
  Backoff backoff({milliseconds(100), milliseconds(1000)}, 7);
  for (const int round : {1, 2}) {
    for (const int ceiling : {100, 200, 400, 800, 1000, 1000, 1000}) {
      const auto wait = backoff.next();
      EXPECT_GE(wait, milliseconds(ceiling / 2)) << round;
      EXPECT_LE(wait, milliseconds(ceiling)) << round;
    }
    backoff.succeeded();
  }
}

TEST(Backoff, KeepsAgentsOutOfStep) {
  Backoff one({milliseconds(1000), milliseconds(1000)}, 1);
  Backoff other({milliseconds(1000), milliseconds(1000)}, 2);
  int same = 0;
  for (int i = 0; i < 20; ++i) same += one.next() == other.next() ? 1 : 0;
  EXPECT_LT(same, 5);
}

}  // namespace
}  // namespace headgate::channel
