#include "cli/view/snapshot_source.hpp"

#include <gtest/gtest.h>

#include "cli/top/test_node.hpp"
#include "cli/view/view_command.hpp"

namespace headgate::cli {
namespace {

std::vector<std::string> told(const snapshot::Snapshot& before, const snapshot::Snapshot& now) {
  std::vector<std::string> all;
  for (const auto& event : changes(before, now, 0)) all.push_back(event.kind + ": " + event.text);
  return all;
}
using Told = std::vector<std::string>;

TEST(Changes, EqualSnapshotsGiveNoEvents) { EXPECT_TRUE(changes(test_picture(), test_picture(), 0).empty()); }

TEST(Changes, ARefusalIsReportedWithItsFiguresAndCount) {
  auto before = test_picture();
  before.shares[1].devices[0].refusals = 1;
  const auto events = changes(before, test_picture(), 41);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].sequence, 42u);
  EXPECT_EQ(events[0].kind, "memory.refused");
  EXPECT_EQ(events[0].severity, "warn");
  EXPECT_EQ(events[0].unix_ns, kTestTime);
  EXPECT_EQ(events[0].pid, 48121u);
  EXPECT_EQ(events[0].text, "train asked for 2.0 GiB on GPU 0, refused: 15.0 GiB of 16.0 GiB in use (2 times)");
}

TEST(Changes, ARecreatedShareReportsItsRefusalsAgain) {
  auto before = test_picture();
  before.shares[1].devices[0].refusals = 900;
  EXPECT_EQ(changes(before, test_picture(), 0).size(), 1u);
}

TEST(Changes, SharesAndProcessesAreReportedWhenTheyComeAndGo) {
  auto before = test_picture();
  before.shares.erase(before.shares.begin() + 2);
  std::erase_if(before.processes, [](const auto& process) { return process.command == "vllm"; });
  EXPECT_EQ(told(before, test_picture()), (Told{"share.created: share vllm-small made: GPU 0, 8.0 GiB, 30 %",
                                                "process.started: vllm (31007) started in vllm-small"}));
  EXPECT_EQ(told(test_picture(), before),
            (Told{"share.removed: share vllm-small is gone", "process.ended: vllm (31007) ended in vllm-small"}));
}

TEST(Changes, AProcessOutsideEveryShareIsNamed) {
  auto before = test_picture();
  std::erase_if(before.processes, [](const auto& process) { return process.share.empty(); });
  EXPECT_EQ(told(before, test_picture()), Told{"audit.outside: ffmpeg (50977) uses GPU 0 outside every share"});
}

TEST(Changes, AnXidIsReportedWhenItsCountGrows) {
  auto now = test_picture();
  now.gpus[1].xids = {{.xid = 31, .count = 1}};
  EXPECT_EQ(told(test_picture(), now), Told{"gpu.xid: GPU 1 reports XID 31"});
  EXPECT_TRUE(told(now, now).empty());
}

TEST(Changes, OneSnapshotHasTheLastRefusalAndWait) {
  const auto events = remembered(test_picture());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].text, "train asked for 2.0 GiB on GPU 0, refused: 15.0 GiB of 16.0 GiB in use (3 times)");
  EXPECT_EQ(events[1].text, "train waited for GPU 0: 7.0 s in all");
}

TEST(Changes, AnEventLineIsHarmlessAndHasADateIfNotOfToday) {
  ::setenv("TZ", "UTC0", 1);
  ::tzset();
  snapshot::Event event = test_events()[1];
  event.text = "a\x1b[2Jb\nc";
  EXPECT_EQ(event_line(event, kTestTime, {}), "14:02:11  warn   a?[2Jb?c\n");
  EXPECT_EQ(event_line(event, kTestTime + 86'400'000'000'000, {}), "1970-01-01 14:02:11  warn   a?[2Jb?c\n");
}

}  // namespace
}  // namespace headgate::cli
