#include "observe/event_log.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace headgate::observe {
namespace {

TEST(EventLog, AReaderFollowsByNumberAndMissesNothingThatIsKept) {
  EventLog log(3);
  for (const char* text : {"one", "two", "three", "four"}) log.add({.kind = "k", .severity = "info", .text = text});
  const auto all = log.after(0);
  ASSERT_EQ(all.size(), 3u);  // the oldest made room
  EXPECT_EQ(all.front().text, "two");
  EXPECT_EQ(all.front().sequence, 2u);
  EXPECT_GT(all.front().unix_ns, 0u);
  EXPECT_EQ(log.after(3).front().text, "four");
  EXPECT_TRUE(log.after(4).empty());
  EXPECT_EQ(log.after(0, 1).size(), 1u);
}

TEST(EventLog, NamesCannotSteerAReadersTerminal) {
  EventLog log;
  log.add({.kind = "k", .severity = "info", .share = "a\x1b[2J", .text = "x\ny"});
  EXPECT_EQ(log.after(0)[0].share, "a?[2J");
  EXPECT_EQ(log.after(0)[0].text, "x?y");
}

TEST(EventLog, AShareThatMakesEventsWithoutEndDrivesOutItsOwnAndNobodyElses) {
  EventLog log(700);
  log.add({.kind = "share.created", .severity = "info", .share = "quiet", .text = "t"});
  log.add({.kind = "node", .severity = "info", .text = "t"});
  for (int n = 0; n < 20'000; ++n) log.add({.kind = "tenant.lied", .severity = "warn", .share = "loud", .text = "t"});
  const auto all = log.after(0, 10'000);
  ASSERT_GE(all.size(), 500u);
  EXPECT_LT(all.size(), 690u) << "all that it said was kept";
  EXPECT_EQ(all[0].share, "quiet");
  EXPECT_EQ(all[1].kind, "node");
  // As time goes on it may speak again, and what was left out is told.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  log.add({.kind = "process.left", .severity = "info", .share = "loud", .text = "t"});
  const auto later = log.after(all.back().sequence);
  ASSERT_GE(later.size(), 2u);
  EXPECT_EQ(later[later.size() - 2].kind, "events.left_out");
  EXPECT_EQ(later.back().kind, "process.left");
  for (int share = 0; share < 100; ++share)
    for (int n = 0; n < 10; ++n)
      log.add({.kind = "k", .severity = "info", .share = "s" + std::to_string(share), .text = "t"});
  EXPECT_EQ(log.after(0, 10'000).size(), 700u);
  EXPECT_EQ(log.after(0)[0].share, "quiet");
}

TEST(EventLog, ManyWritersLoseNoNumber) {
  EventLog log(100'000);
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) log.add({.kind = "k", .severity = "info", .text = "t"});
    });
  for (auto& writer : writers) writer.join();
  const auto all = log.after(0, 10'000);
  ASSERT_EQ(all.size(), 4000u);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].sequence, i + 1);
}

}  // namespace
}  // namespace headgate::observe
