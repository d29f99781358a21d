#include "base/duration.hpp"

#include <gtest/gtest.h>

namespace headgate {
namespace {

using namespace std::chrono_literals;

TEST(Duration, ATimeIsReadWholeOrNotAtAll) {
  EXPECT_EQ(read_duration("90s"), 90s);
  EXPECT_EQ(read_duration("5m"), 5min);
  EXPECT_EQ(read_duration("2h"), 2h);
  EXPECT_EQ(read_duration("36500d"), 36'500 * 24h);
  for (const char* bad : {"", "s", "5", "5 m", "-5m", "5.5m", "5w", "5M"})
    EXPECT_EQ(read_duration(bad).error().why, "is no length of time") << bad;
  EXPECT_EQ(read_duration("0d").error().why, "is zero");
  for (const char* bad : {"36501d", "99999999999s"}) EXPECT_EQ(read_duration(bad).error().why, "is too long") << bad;
}

TEST(Duration, SpansAreAdded) {
  EXPECT_EQ(read_spans("30d"), 30 * 24h);
  EXPECT_EQ(read_spans(" 1h 30m "), 90min);
  EXPECT_EQ(read_spans("1h30min"), 90min);
  EXPECT_EQ(read_spans("2weeks"), 14 * 24h);
  for (const char* bad : {"", "5", "h", "-1h", "1.5h", "0s", "1h,2m", "101years"}) EXPECT_FALSE(read_spans(bad)) << bad;
}

}  // namespace
}  // namespace headgate
