#include "observe/event_log.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

namespace headgate::observe {
namespace {

void add(EventLog& log, int count) {
  for (int i = 0; i < count; ++i) log.add({.kind = "k", .severity = "info", .text = "t"});
}

std::vector<std::string> ids(const std::vector<snapshot::Event>& events) {
  std::vector<std::string> all;
  for (const auto& event : events)
    all.push_back((event.kind == EventCursor::kMissed ? "missed " : "") + std::to_string(event.sequence));
  return all;
}

std::vector<std::string> rest_of(const EventLog& log, EventCursor& cursor) {
  std::vector<std::string> all;
  for (auto some = ids(cursor.next(log, 3)); !some.empty(); some = ids(cursor.next(log, 3)))
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

TEST(EventCursor, DeliversEachEventOnceAndInOrder) {
  EventLog log(100'000);
  EventCursor cursor(log, 0);
  std::vector<std::thread> writers;
  std::atomic<int> working = 4;
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&] {
      add(log, 1000);
      --working;
    });
  std::vector<std::string> got;
  for (bool more = true; more;) {
    more = working > 0;
    for (auto& id : rest_of(log, cursor)) got.push_back(std::move(id));
  }
  for (auto& writer : writers) writer.join();
  ASSERT_EQ(got.size(), 4000u);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], std::to_string(i + 1));
}

TEST(EventCursor, ReportsHowManyEventsASlowReaderMissed) {
  EventLog log(8);
  add(log, 3);
  EventCursor cursor(log, 1);
  EXPECT_EQ(rest_of(log, cursor), (std::vector<std::string>{"2", "3"}));
  add(log, 13);
  const auto told = cursor.next(log, 64);
  ASSERT_EQ(told.size(), 9u);
  EXPECT_EQ(told[0].kind, EventCursor::kMissed);
  EXPECT_EQ(told[0].sequence, 8u);
  EXPECT_EQ(told[0].text, "5 events up to number 8 were dropped before this reader received them");
  EXPECT_EQ(ids(told).back(), "16");
}

TEST(EventCursor, ReportsNoLossForAReaderOfAllEvents) {
  EventLog log(8);
  add(log, 100);
  EventCursor cursor(log, 0);
  EXPECT_EQ(rest_of(log, cursor), (std::vector<std::string>{"93", "94", "95", "96", "97", "98", "99", "100"}));
  EventCursor slow(log, 0);
  add(log, 8 + 2);
  EXPECT_EQ(ids(slow.next(log, 64)).front(), "missed 102");
}

TEST(EventCursor, MissesNoEventAfterARestartOfTheDaemon) {
  EventLog log;
  add(log, 3);
  EventCursor cursor(log, 5000);
  EXPECT_EQ(rest_of(log, cursor), (std::vector<std::string>{"1", "2", "3"}));
  EventCursor fresh(log, std::nullopt);
  EXPECT_TRUE(fresh.next(log, 64).empty());
  add(log, 1);
  EXPECT_EQ(rest_of(log, fresh), (std::vector<std::string>{"4"}));
}

TEST(EventCursor, ReadsNothingThroughADiscardedCopy) {
  EventLog log;
  add(log, 2);
  const EventCursor cursor(log, 0);
  for (int i = 0; i < 2; ++i) {
    EventCursor attempt = cursor;
    EXPECT_EQ(rest_of(log, attempt), (std::vector<std::string>{"1", "2"}));
  }
}

}  // namespace
}  // namespace headgate::observe
