#include "observe/event_log.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace headgate::observe {
namespace {

TEST(EventLog, AReaderFollowsByNumberWithoutGaps) {
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

TEST(EventLog, NamesCannotDriveAReadersTerminal) {
  EventLog log;
  log.add({.kind = "k", .severity = "info", .share = "a\x1b[2J", .text = "x\ny\xc2\x9bz"});
  EXPECT_EQ(log.after(0)[0].share, "a?[2J");
  EXPECT_EQ(log.after(0)[0].text, "x?y?z");
}

snapshot::Event of(const std::string& share, const std::string& kind = "k") {
  return {.kind = kind, .severity = "info", .share = share, .text = "t"};
}

std::vector<snapshot::Event> of_kind(const EventLog& log, const std::string& kind) {
  auto all = log.after(0);
  std::erase_if(all, [&](const auto& event) { return event.kind != kind; });
  return all;
}

TEST(EventLog, AnEndlessSourceDropsOnlyItsOwnEvents) {
  EventLog log(800);
  log.add(of("quiet", "share.created"));
  log.add(of("", "node"));
  for (int n = 0; n < 20'000; ++n) log.add(of("loud", "tenant.lied"));
  const auto all = log.after(0);
  EXPECT_EQ(all[0].share, "quiet");
  EXPECT_EQ(all[1].kind, "node");
  // An eighth of the log, and the newest of them.
  EXPECT_EQ(all.size(), 102u);
  EXPECT_EQ(all.back().sequence, log.last_sequence());
  EXPECT_EQ(all.back().sequence - all[2].sequence, 99u);
}

TEST(EventLog, DroppedEventsAreReported) {
  EventLog log;
  for (int n = 0; n < 2'000; ++n) log.add(of("loud"));
  const std::uint64_t last = log.last_sequence();
  EXPECT_LT(last, 1'500u) << "all that it said was kept";
  // As time passes it may add events again.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (of_kind(log, "process.left").empty() && std::chrono::steady_clock::now() < until)
    log.add(of("loud", "process.left"));
  const auto later = log.after(last);
  ASSERT_GE(later.size(), 2u);
  EXPECT_EQ(later[0].kind, "events.left_out");
  EXPECT_EQ(later[1].kind, "process.left");
}

TEST(EventLog, FindingsAboutAShareAreNotDroppedWithItsNoise) {
  EventLog log;
  for (int n = 0; n < 2'000; ++n) log.add(of("loud", "tenant.lied"));
  log.add(of("loud", "audit.memory"));
  EXPECT_EQ(of_kind(log, "audit.memory").size(), 1u);
  log.add(of("loud", "share.damaged"));
  EXPECT_EQ(of_kind(log, "share.damaged").size(), 1u);
}

// Names of long ago once kept their last events for ever, and living ones had one or two each.
TEST(EventLog, ThousandsOfNamesDoNotSilenceTheNode) {
  EventLog log;
  for (int n = 0; n < 5'000; ++n) {
    log.add(of("former-" + std::to_string(n), "share.created"));
    log.add(of("former-" + std::to_string(n), "share.removed"));
  }
  for (int n = 0; n < 11; ++n) log.add(of("", "gpu.policy"));
  for (int n = 0; n < 50; ++n) log.add(of("living", "process.joined"));
  EXPECT_EQ(of_kind(log, "gpu.policy").size(), 11u);
  EXPECT_EQ(of_kind(log, "process.joined").size(), 50u);
  const auto all = log.after(0, 100'000);
  ASSERT_EQ(all.size(), EventLog::kCapacity);
  for (std::size_t i = 1; i < all.size(); ++i) ASSERT_EQ(all[i].sequence, all[i - 1].sequence + 1);
  EXPECT_EQ(all.back().sequence, log.last_sequence());
}

TEST(EventLog, TheNodesEventsAndThoseOfSharesKeepApart) {
  EventLog log(80);
  for (int n = 0; n < 12; ++n) log.add(of("", "gpu.xid"));
  for (int n = 0; n < 1'000; ++n) log.add(of("s" + std::to_string(n), "share.created"));
  const auto kept = of_kind(log, "gpu.xid");
  ASSERT_EQ(kept.size(), 12u);
  EXPECT_EQ(kept.back().sequence, 12u);
  for (int n = 0; n < 1'000; ++n) log.add(of("", "gpu.xid"));
  EXPECT_EQ(of_kind(log, "gpu.xid").back().sequence, log.last_sequence());
  EXPECT_EQ(of_kind(log, "share.created").back().share, "s999");
  EXPECT_EQ(log.after(0).size(), 80u);
}

snapshot::Event of_owner(std::uint32_t uid, const std::string& share, const std::string& kind) {
  return {.kind = kind, .severity = "info", .share = share, .owner_uid = uid, .text = "t"};
}

TEST(EventLog, AnOwnerOfManyNamesDropsNoOtherHistory) {
  EventLog log(800);
  for (int n = 0; n < 60; ++n) log.add(of_owner(1001, "bobs", "process.joined"));
  log.add(of_owner(1001, "bobs", "audit.memory"));
  for (int n = 0; n < 20'000; ++n) log.add(of_owner(1000, "x" + std::to_string(n), "share.created"));
  EXPECT_EQ(of_kind(log, "process.joined").size(), 60u);
  EXPECT_EQ(of_kind(log, "audit.memory").size(), 1u);
  EXPECT_EQ(log.after(0).size(), 800u);
}

TEST(EventLog, AnOwnersNoiseDropsNoAuditFinding) {
  EventLog log(800);
  for (int n = 0; n < 90; ++n) log.add(of_owner(1000, "a" + std::to_string(n), "audit.memory"));
  for (int n = 0; n < 20'000; ++n) log.add(of_owner(1000, "x" + std::to_string(n), "share.created"));
  EXPECT_EQ(of_kind(log, "audit.memory").size(), 90u);
  // Its findings also push out no other user's.
  log.add(of_owner(1001, "bobs", "audit.compute"));
  for (int n = 0; n < 20'000; ++n) log.add(of_owner(1000, "y" + std::to_string(n), "audit.memory"));
  EXPECT_EQ(of_kind(log, "audit.compute").size(), 1u);
}

TEST(EventLog, AnOwnerHasOneRateForAllNames) {
  EventLog log(100'000);
  for (int n = 0; n < 20'000; ++n) log.add(of_owner(1000, "x" + std::to_string(n), "share.created"));
  EXPECT_LT(log.after(0, 100'000).size(), 19'000u);
  log.add(of_owner(1001, "bobs", "share.created"));
  EXPECT_EQ(log.after(0, 100'000).back().share, "bobs");
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
