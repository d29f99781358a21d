#include "http/event_text.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace headgate::http {
namespace {

std::vector<Event> read(std::string_view text, std::size_t step = 1'000'000) {
  EventReader reader;
  std::vector<Event> events;
  for (; !text.empty(); text.remove_prefix(std::min(step, text.size()))) {
    EXPECT_TRUE(reader.feed(text.substr(0, step)));
    while (auto event = reader.next()) events.push_back(std::move(*event));
  }
  return events;
}

TEST(EventText, IsReadBackAtAnySplitOfTheBytes) {
  const std::vector<Event> sent = {
      {"task", "{\"a\":1}", "7"}, {"", "two\nlines\n", "7"}, {"empty", "", "8"}, {"", " blank", "8"}};
  std::string text(kHeartbeat);
  for (const auto& event : sent) text += event_text(event) + std::string(kHeartbeat);
  for (std::size_t step = 1; step < 20; ++step) EXPECT_EQ(read(text, step), sent) << step;
}

TEST(EventText, AllowsNoSecondEventInNameOrData) {
  const auto events = read(event_text({"a\n\nevent: b", "x\r\n\r\ndata: y\rz", "1\r2"}));
  EXPECT_EQ(events, (std::vector<Event>{{"aevent: b", "x\n\ndata: y\nz", "12"}}));
}

TEST(EventReader, AcceptsWhatTheStandardAccepts) {
  EXPECT_EQ(read("\xef\xbb\xbf"
                 "data:a\r\rdata: b\r\n\r\n:c\nretry: 9\nevent\ndata\ndata\n\nevent: lost\n\ndata: e"),
            (std::vector<Event>{{"", "a", ""}, {"", "b", ""}, {"", "\n", ""}}));
}

TEST(EventReader, RefusesAnEndlessEvent) {
  EventReader reader(100);
  EXPECT_TRUE(reader.feed("data: " + std::string(50, 'x') + "\n"));
  EXPECT_FALSE(reader.feed("data: " + std::string(50, 'x') + "\n"));
  EXPECT_FALSE(reader.feed("\n"));
}

}  // namespace
}  // namespace headgate::http
