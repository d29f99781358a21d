#include "observe/unmeasured.hpp"

#include <gtest/gtest.h>

namespace headgate::observe {
namespace {

snapshot::Share share_with(std::uint64_t failures, const std::string& policy = "open") {
  snapshot::Share share;
  share.name = "train";
  share.generation = 7;
  share.owner_uid = 1000;
  share.fail_policy = policy;
  share.devices.resize(1);
  share.devices[0].uuid = "GPU-a";
  if (failures != 0) share.devices[0].hook_errors = {{"cuEventRecord", failures}};
  return share;
}

TEST(Unmeasured, EachContextIsReportedOnceWithCallAndResult) {
  Unmeasured unmeasured;
  EXPECT_TRUE(unmeasured.look({share_with(0)}).empty());
  const auto events = unmeasured.look({share_with(1, "closed")});
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, "share.unmeasured");
  EXPECT_EQ(events[0].severity, "error");
  EXPECT_EQ(events[0].share, "train");
  EXPECT_EQ(events[0].uuid, "GPU-a");
  EXPECT_EQ(events[0].owner_uid, 1000u);
  EXPECT_NE(events[0].text.find("cuEventRecord"), std::string::npos);
  EXPECT_NE(events[0].text.find("are refused"), std::string::npos);
  EXPECT_TRUE(unmeasured.look({share_with(1)}).empty());
  const auto more = unmeasured.look({share_with(2)});
  ASSERT_EQ(more.size(), 1u);
  EXPECT_NE(more[0].text.find("run unlimited"), std::string::npos);
}

TEST(Unmeasured, FailuresBeforeTheDaemonAreNotReported) {
  Unmeasured unmeasured;
  EXPECT_TRUE(unmeasured.look({share_with(3)}).empty());
  EXPECT_EQ(unmeasured.look({share_with(4)}).size(), 1u);
}

TEST(Unmeasured, ANewShareMayHaveFailedAlready) {
  Unmeasured unmeasured;
  EXPECT_TRUE(unmeasured.look({}).empty());
  EXPECT_EQ(unmeasured.look({share_with(1)}).size(), 1u);
}

}  // namespace
}  // namespace headgate::observe
