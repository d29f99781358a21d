#include "api/event_feed.hpp"

#include <gtest/gtest.h>

namespace headgate::api {
namespace {

void add(observe::EventLog& log, int count, const std::string& share = {}, std::uint32_t owner = 1001) {
  for (int i = 0; i < count; ++i)
    log.add({.kind = "k", .severity = "info", .share = share, .owner_uid = owner, .text = "t"});
}

std::vector<std::string> ids(const std::vector<http::Event>& events) {
  std::vector<std::string> all;
  for (const auto& event : events)
    all.push_back((event.name == observe::EventCursor::kMissed ? "missed " : "") + event.id);
  return all;
}

std::vector<std::string> rest_of(EventFeed& feed) {
  std::vector<std::string> all;
  for (auto some = ids(feed.next()); !some.empty(); some = ids(feed.next()))
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

TEST(EventFeed, HiddenEventsDoNotDelayVisibleOnes) {
  observe::EventLog log;
  for (int i = 0; i < 10; ++i) add(log, 50, "s" + std::to_string(i), 1002);
  add(log, 1, "mine", 1001);
  EventFeed feed(log, nullptr, {.uid = 1001, .gids = {}, .administrator = false}, {}, false, {});
  EXPECT_EQ(rest_of(feed), (std::vector<std::string>{"501"}));
  EXPECT_TRUE(feed.next().empty());
}

TEST(EventFeed, NonAdministratorsLearnOfMissedEventsToo) {
  observe::EventLog log(8);
  EventFeed feed(log, nullptr, {.uid = 1001, .gids = {}, .administrator = false}, {}, false, {});
  for (int i = 0; i < 20; ++i) add(log, 1, "s" + std::to_string(i), 1002);
  EXPECT_EQ(rest_of(feed), (std::vector<std::string>{"missed 12"}));
}

}  // namespace
}  // namespace headgate::api
