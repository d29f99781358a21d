// Events survive the daemon's end, however it ends.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "daemon_program.hpp"
#include "snapshot/json.hpp"

namespace headgate::e2e {
namespace {

using Events = std::vector<snapshot::Event>;

Events ask_for(const Daemon& daemon, const std::string& query) {
  const auto reply = daemon.ask("GET", "/v1/events?" + query);
  EXPECT_EQ(reply.status, 200) << reply.body;
  return snapshot::from_json<Events>(reply.body).value_or(Events{});
}

std::string text_of(const Events& events) {
  std::string all;
  for (const auto& event : events) all += event.kind + ": " + event.text + "\n";
  return all;
}

// The query comes in the line after the program's.
TEST(DaemonEvents, RefusalsOfAnEndedProgramAreKnown) {
  const Daemon daemon;
  const Cli& cli = daemon.cli();
  for (int i = 0; i < 10; ++i) {
    const std::string name = "w" + std::to_string(i);
    const Said said = cli.shell("$H share create " + name + " --mem 1GiB && { $H run --share " + name +
                                " -- ${SIM%/sim}/headgate-load --mem=3GiB --no-idle-list > /dev/null 2>&1; $H why " +
                                name + "; $H events --share " + name + "; }");
    EXPECT_NE(said.out.find("memory: refused once"), std::string::npos) << said.out << said.err;
    EXPECT_NE(said.out.find(name + " asked 3.0 GiB, limit 1.0 GiB"), std::string::npos) << said.out << said.err;
  }
}

TEST(DaemonEvents, AKillAndARestartLoseNoEvents) {
  Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create train --mem 4GiB && $H share set train --mem 5GiB").status, 0);
  const Events before = ask_for(daemon, "since_unix_ns=1");  // returns after all earlier events are written
  ASSERT_TRUE(text_of(before).contains("share.created")) << text_of(before);
  const std::uint64_t last = before.back().sequence;
  daemon.kill_and_wait();
  daemon.start();
  EXPECT_EQ(ask_for(daemon, "since_unix_ns=1&share=train&kind=share.created").size(), 1U);
  const std::string told = daemon.cli().shell("$H events --since 1h --share train -o wide").out;
  EXPECT_TRUE(told.contains("share.created") && told.contains("share.set")) << told;
  EXPECT_EQ(daemon.cli().shell("$H events --since 1h --kind share.set | grep -c train").out, "1\n") << "each once";
  const Events newer = ask_for(daemon, "after=" + std::to_string(last));
  ASSERT_FALSE(newer.empty());
  EXPECT_GT(newer.front().sequence, last) << "a follower's place stays good";
  EXPECT_FALSE(text_of(newer).contains("share.created") || text_of(newer).contains("missed")) << text_of(newer);
  auto stream = http::EventSource::open({.path = daemon.socket()},
                                        {.target = "/v1/events?follow=1&after=" + std::to_string(last)},
                                        std::chrono::milliseconds(2000));
  ASSERT_TRUE(stream);
  const auto first = stream->next(std::chrono::seconds(10));
  ASSERT_TRUE(first && *first);
  EXPECT_EQ((*first)->id, std::to_string(newer.front().sequence)) << (*first)->data;
  // An EventSource that reconnects repeats its address.
  auto again = http::EventSource::open(
      {.path = daemon.socket()},
      {.target = "/v1/events?follow=1&after=0", .headers = {{"Last-Event-ID", std::to_string(last)}}},
      std::chrono::milliseconds(2000));
  ASSERT_TRUE(again);
  const auto next = again->next(std::chrono::seconds(10));
  ASSERT_TRUE(next && *next);
  EXPECT_EQ((*next)->id, (*first)->id) << (*next)->data;
}

TEST(DaemonEvents, AnUnusableFileIsReportedAndTheNodeStillWorks) {
  Daemon daemon;
  ASSERT_EQ(daemon.cli().shell("$H share create train --mem 4GiB").status, 0);
  daemon.kill_and_wait();
  const std::string file = daemon.cli().directory() + "/state/headgate/events.db";
  ASSERT_TRUE(std::filesystem::exists(file));
  for (const char* beside : {"-wal", "-shm"}) std::filesystem::remove(file + beside);
  std::ofstream(file) << std::string(8192, 'x');
  daemon.start();
  EXPECT_TRUE(daemon.errors_so_far().contains("events are kept in memory only: the database " + file))
      << daemon.errors_so_far();
  EXPECT_EQ(daemon.share("train").name, "train");
  ASSERT_EQ(daemon.cli().shell("$H share set train --mem 5GiB").status, 0);
  const std::string told = daemon.cli().shell("$H events --since 1h -o wide").out;
  EXPECT_TRUE(told.contains("events.unsaved") && told.contains("share.set")) << told;
}

// Reading events must not grow the daemon beyond its limit of 32 MiB.
TEST(DaemonEvents, QueriesOfThousandsOfEventsNeedNoExtraMemory) {
  const Daemon daemon;
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_EQ(daemon.ask("POST", "/v1/shares", R"({"name":"s)" + std::to_string(i % 50) + R"(","mem":"1GiB"})").status,
              201);
    ASSERT_EQ(daemon.ask("DELETE", "/v1/shares/s" + std::to_string(i % 50)).status, 200);
  }
  const auto resident_kib = [&] {
    std::ifstream status("/proc/" + std::to_string(daemon.pid()) + "/status");
    std::uint64_t kib = 0;
    for (std::string word; kib == 0 && status >> word;)
      if (word == "VmRSS:") status >> kib;
    return kib;
  };
  EXPECT_EQ(ask_for(daemon, "share=s1&kind=share.removed").size(), 20u);
  const std::uint64_t before = resident_kib();
  if (before == 0) GTEST_SKIP() << "there is no /proc here";
  for (int i = 0; i < 4; ++i) EXPECT_GE(ask_for(daemon, "").size(), 2'000u);
  EXPECT_GE(ask_for(daemon, "since_unix_ns=1").size(), 2'000u);
  std::printf("%lu KiB before, %lu after\n", before, resident_kib());
  EXPECT_LE(resident_kib(), before + 3 * 1024);
  EXPECT_LE(resident_kib(), 32 * 1024);
}

}  // namespace
}  // namespace headgate::e2e
