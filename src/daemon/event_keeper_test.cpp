#include "daemon/event_keeper.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <future>

namespace headgate::daemon {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class EventKeeperTest : public ::testing::Test {
 protected:
  EventKeeperTest() {
    char path[] = "/tmp/headgate-keeper-XXXXXX";
    folder_ = ::mkdtemp(path);
  }
  ~EventKeeperTest() override { fs::remove_all(folder_); }

  static std::vector<snapshot::Event> saved_in(tenancy::EventStore& store) {
    std::promise<Result<std::vector<snapshot::Event>>> answer;
    store.read(
        {}, 1000, [](const auto&) { return true; }, {.uid = 0, .waits = [] { return true; }},
        [&](auto found) { answer.set_value(std::move(found)); });
    return answer.get_future().get().value();
  }
  static void add(observe::EventLog& log, const char* text) {
    log.add({.kind = "k", .severity = "info", .text = text});
  }

  std::string folder_;
};

TEST_F(EventKeeperTest, AStoreThatOpensLateHasAllEventsOfTheRun) {
  observe::EventLog log;
  const std::string path = folder_ + "/later/events.db";
  EventKeeper keeper(log, path, {});
  keeper.open();
  EXPECT_EQ(keeper.store(), nullptr);
  EXPECT_FALSE(keeper.is_saving());
  add(log, "before");
  const auto now = std::chrono::steady_clock::now();
  EXPECT_EQ(keeper.retry(now + 2s), nullptr);
  fs::create_directory(folder_ + "/later");
  EXPECT_EQ(keeper.retry(now + 2500ms), nullptr) << "not more often than each second";
  ASSERT_NE(keeper.retry(now + 4s), nullptr);
  EXPECT_TRUE(keeper.is_saving());
  EXPECT_EQ(keeper.retry(now + 10s), nullptr) << "told once";
  add(log, "after");
  std::string texts;
  for (const auto& event : saved_in(*keeper.store())) texts += event.text + "; ";
  EXPECT_TRUE(texts.contains("before; ")) << texts;
  EXPECT_TRUE(texts.contains("after; ")) << texts;
  const auto told = log.after(0);
  EXPECT_EQ(std::ranges::count(told, "events.unsaved", &snapshot::Event::kind), 1) << "the same trouble is told once";
  EXPECT_EQ(std::ranges::count(told, "events.saved", &snapshot::Event::kind), 1);
}

TEST_F(EventKeeperTest, ALaterRunContinuesAfterAllSavedNumbers) {
  std::uint64_t last = 0;
  {
    observe::EventLog log;
    EventKeeper keeper(log, folder_ + "/events.db", {});
    keeper.open();
    add(log, "one");
    last = log.last_sequence();
  }
  observe::EventLog log;
  EventKeeper keeper(log, folder_ + "/events.db", {});
  keeper.open();
  EXPECT_EQ(log.after(0).size(), 1U);
  EXPECT_GE(log.began_after(), last);
}

}  // namespace
}  // namespace headgate::daemon
