#include "cli/view/view_command.hpp"

#include <gtest/gtest.h>

namespace headgate::cli {
namespace {

snapshot::Event event_at(std::uint64_t second, const char* kind, const char* share) {
  return {.unix_ns = second * 1'000'000'000, .kind = kind, .severity = "info", .share = share, .text = kind};
}

std::vector<std::string> texts(const std::vector<snapshot::Event>& all) {
  std::vector<std::string> out;
  for (const auto& event : folded(all)) out.push_back(event.text);
  return out;
}

using Texts = std::vector<std::string>;

TEST(EventsFolded, RunsOfAShareAndMinuteAreOneLine) {
  EXPECT_EQ(texts({event_at(61, "process.joined", "alice"), event_at(62, "memory.refused", "alice"),
                   event_at(63, "process.joined", "alice"), event_at(64, "process.left", "alice"),
                   event_at(65, "share.created", "bob")}),
            (Texts{"memory.refused", "2 runs in alice, 1 ended", "share.created"}));
  EXPECT_EQ(folded({event_at(61, "process.left", "a"), event_at(62, "process.left", "a"),
                    event_at(63, "process.left", "a")})[0],
            [] {
              auto last = event_at(63, "process.left", "a");
              last.text = "3 runs ended in a";
              return last;
            }());
  EXPECT_EQ(texts({event_at(61, "process.started", "a"), event_at(62, "process.ended", "a"),
                   event_at(63, "process.ended", "a")}),
            (Texts{"1 run in a, 2 ended"}))
      << "without a daemon too";
}

TEST(EventsFolded, FewRunsAndThoseOfOtherSharesAndMinutesStayApart) {
  const std::vector<snapshot::Event> few = {event_at(58, "process.joined", "a"), event_at(59, "process.left", "a"),
                                            event_at(60, "process.joined", "a"), event_at(61, "process.left", "a"),
                                            event_at(62, "process.joined", "b"), event_at(63, "process.left", "b")};
  EXPECT_EQ(folded(few), few);
  EXPECT_TRUE(folded({}).empty());
}

}  // namespace
}  // namespace headgate::cli
