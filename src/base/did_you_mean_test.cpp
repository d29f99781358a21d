#include "base/did_you_mean.hpp"

#include <gtest/gtest.h>

namespace headgate {
namespace {

TEST(DidYouMean, ForgivesOneOrTwoSlipsInALongWordOnly) {
  const std::vector<std::string> words = {"status", "share", "events"};
  EXPECT_EQ(did_you_mean("statsu", words), "status");
  EXPECT_EQ(did_you_mean("event", words), "events");
  EXPECT_EQ(did_you_mean("shar", words), "share");
  EXPECT_EQ(did_you_mean("memory", words), "");
  EXPECT_EQ(did_you_mean(std::string(1000, 'x'), words), "");
}

}  // namespace
}  // namespace headgate
