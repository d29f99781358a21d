#include "cli/run/run_daemon.hpp"

#include <gtest/gtest.h>

#include <future>

namespace headgate::cli {
namespace {

Entry entry_that_waits(const std::string& reason) {
  Entry entry;
  entry.share = "m";
  entry.waits_for = reason;
  return entry;
}

TEST(GpuWait, SaysWhyAtOnceAndAgainUntilItIsOver) {
  ::testing::internal::CaptureStderr();
  int asked = 0;
  std::promise<void> over;
  const auto ask = [&]() -> Result<Entry> {
    ++asked;
    if (asked == 1) return fail(ErrorCode::unreachable, "the daemon is restarting");
    if (asked < 4) return entry_that_waits("uid 3002 is first");
    over.set_value();
    return entry_that_waits("");
  };
  {
    const GpuWait wait(entry_that_waits("uid 3001 is first"), ask, {}, std::chrono::milliseconds(1));
    over.get_future().wait();
  }
  EXPECT_EQ(asked, 4) << "and not after the end";
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "headgate: share m: its programs wait: uid 3001 is first\n"
            "headgate: share m: its programs wait: uid 3002 is first\n"
            "headgate: share m: its programs wait: uid 3002 is first\n"
            "headgate: share m: its programs wait no longer\n");
}

TEST(GpuWait, IsSilentWithoutAReasonAndWhenQuiet) {
  ::testing::internal::CaptureStderr();
  const auto ask = []() -> Result<Entry> { return fail(ErrorCode::failed, "it was asked"); };
  {
    const GpuWait none(entry_that_waits(""), ask, {}, std::chrono::milliseconds(1));
  }
  {
    const GpuWait quiet(entry_that_waits("uid 3001 is first"), ask, {.quiet = true}, std::chrono::milliseconds(1));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

// A program that ends is not kept by the pause.
TEST(GpuWait, EndsWithTheRun) {
  ::testing::internal::CaptureStderr();
  const auto ask = []() -> Result<Entry> { return fail(ErrorCode::failed, "it was asked"); };
  {
    const GpuWait wait(entry_that_waits("uid 3001 is first"), ask, {}, std::chrono::hours(1));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "headgate: share m: its programs wait: uid 3001 is first\n");
}

}  // namespace
}  // namespace headgate::cli
