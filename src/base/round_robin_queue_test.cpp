#include "base/round_robin_queue.hpp"

#include <gtest/gtest.h>

#include <string>

namespace headgate {
namespace {

TEST(RoundRobinQueue, OtherUsersWaitForAtMostOneItemOfAUser) {
  RoundRobinQueue<std::string> turns;
  for (const char* what : {"a1", "a2", "a3", "a4"}) turns.add(1000, what);
  EXPECT_EQ(turns.next(), "a1");
  EXPECT_EQ(turns.add(0, "r1"), 1u);
  turns.add(2000, "b1");
  EXPECT_EQ(turns.add(2000, "b2"), 2u);
  std::string order;
  while (const auto what = turns.next()) order += *what + " ";
  EXPECT_EQ(order, "b1 r1 a2 b2 a3 a4 ");
  EXPECT_TRUE(turns.empty());
}

TEST(RoundRobinQueue, ItemsThatNoCallerWaitsForAreDropped) {
  RoundRobinQueue<int> turns;
  for (int i = 0; i < 10; ++i) turns.add(7, i);
  turns.add(8, 1);
  turns.drop(7, [](int i) { return i % 2 == 0; });
  turns.drop(8, [](int) { return true; });
  turns.drop(9, [](int) { return true; });
  std::string order;
  while (const auto what = turns.next()) order += std::to_string(*what);
  EXPECT_EQ(order, "13579");
}

}  // namespace
}  // namespace headgate
