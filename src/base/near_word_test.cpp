#include "base/near_word.hpp"

#include <gtest/gtest.h>

namespace headgate {
namespace {

TEST(NearWord, ASlipOrTwoOfALongWordIsForgivenAndNothingElse) {
  const std::vector<std::string> words = {"status", "share", "events"};
  EXPECT_EQ(near_word("statsu", words), "status");
  EXPECT_EQ(near_word("event", words), "events");
  EXPECT_EQ(near_word("shar", words), "share");
  EXPECT_EQ(near_word("memory", words), "");
  EXPECT_EQ(near_word(std::string(1000, 'x'), words), "");
}

}  // namespace
}  // namespace headgate
