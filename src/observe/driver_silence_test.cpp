#include "observe/lost_gpus.hpp"

#include <gtest/gtest.h>

namespace headgate::observe {
namespace {

using std::chrono::seconds;

TEST(DriverSilence, IsReportedWithItsStartAndLength) {
  DriverSilence driver;
  EXPECT_FALSE(driver.look(seconds(1)));
  EXPECT_FALSE(driver.look(kDriverSilence)) << "a slow answer";
  const auto hangs = driver.look(seconds(11));
  ASSERT_TRUE(hangs);
  EXPECT_EQ(hangs->kind, "gpu.silent");
  EXPECT_EQ(hangs->severity, "error");
  EXPECT_TRUE(hangs->text.starts_with("the driver has not answered for 11")) << hangs->text;
  EXPECT_FALSE(driver.look(seconds(12))) << "once";
  EXPECT_FALSE(driver.look(seconds(83)));
  const auto answers = driver.look(seconds(0));
  ASSERT_TRUE(answers);
  EXPECT_EQ(answers->kind, "gpu.answers");
  EXPECT_EQ(answers->severity, "info");
  EXPECT_EQ(answers->text, "the driver answers again, after 1 min 23 s");
  EXPECT_FALSE(driver.look(seconds(1)));
  EXPECT_TRUE(driver.look(seconds(11))) << "and the next time";
}

}  // namespace
}  // namespace headgate::observe
